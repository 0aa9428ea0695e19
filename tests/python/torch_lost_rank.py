"""One of two ranks of test_torch_parallel.py's lost rank: rank 1 dies in front of a call, rank 0 says what the call raised, and after how long.

usage: torch_lost_rank.py RANK RENDEZVOUS_FILE
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch_support import TorchBlock, module_of

import samebits.torch


def main():
    rank = int(sys.argv[1])
    store = f"file://{sys.argv[2]}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=20))
    torch.set_num_threads(1)
    block = TorchBlock(8, 72, 208)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    module = samebits.torch.parallelize(module_of(block, "sm90-v1"), mesh, cp=None, sequence_parallel=False)
    with torch.no_grad():
        module(block.x)
        if rank == 1:
            os._exit(3)
        time.sleep(1)
        begin = time.monotonic()
        try:
            module(block.x)
        except Exception as error:  # noqa: BLE001: printed
            print(f"{type(error).__name__} after {time.monotonic() - begin:.0f} s: {str(error).splitlines()[0]}", flush=True)
            os._exit(0)
    os._exit(1)


main()
