"""Layouts whose ranks are processes under torchrun, a GPU each where there are some: each layout's times against one rank's."""

import os
import statistics
from typing import Any, Dict, Iterator, List, Tuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from .. import contiguous_shards
from ..torch import Qwen3MLP, parallelize, set_shards
from .latency import call_of, row_of, spread, theirs_config, timer
from .layouts import Layout, layout_of, rows_of
from .operands import Operands, operands_of


def started() -> bool:
    """Whether torchrun started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def join(device: str) -> str:
    """Joins the processes; the device of this one."""
    cuda = device.startswith("cuda")
    if cuda:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    return device


def process_rows(
    contract: str, shape: Tuple[int, int], tokens: List[int], directions: List[str], layouts: List[str], device: str, repeats: int
) -> Iterator[Dict[str, Any]]:
    """Rows of a report, on every rank the same. Layouts of as many ranks as there are processes; a call takes as long as its slowest rank."""
    for count in tokens:
        operands = operands_of(count, *shape, device)
        for direction in directions:
            alone = _times(contract, Layout(1, 1, False), operands, direction, repeats)
            for name in layouts:
                layout = layout_of(name)
                if layout.tp * layout.cp != dist.get_world_size():
                    continue
                samples = _times(contract, layout, operands, direction, repeats)
                row = row_of(contract, shape, count, name, direction, "eager", spread(samples))
                ratio = statistics.median(samples) / statistics.median(alone)
                yield {**row, "baseline": "samebits, one rank", "baseline_us": spread(alone), "ratio": ratio}


def _times(contract: str, layout: Layout, operands: Operands, direction: str, repeats: int) -> List[float]:
    hidden, intermediate = operands.x.shape[1], operands.weights[0].shape[0]
    device = str(operands.x.device)
    module = Qwen3MLP(theirs_config(hidden, intermediate), contract=contract).to(operands.x)
    names = ("gate_proj.weight", "up_proj.weight", "down_proj.weight")
    module.load_state_dict(dict(zip(names, operands.weights)))
    x, dy = operands.x, operands.dy
    if layout.tp * layout.cp > 1:
        kind = operands.x.device.type
        mesh = init_device_mesh(kind, (layout.cp, layout.tp), mesh_dim_names=("cp", "tp"))
        parallelize(module, mesh, sequence_parallel=layout.sequence_parallel, second_cut="held")
        set_shards(module, contiguous_shards(len(x), layout.cp))
        rows = rows_of(layout, len(x), *mesh.get_coordinate())
        x, dy = x[rows], dy[rows]
    samples: List[float] = []
    measure = timer(call_of(module, x, dy, direction), "eager", device, 1)
    for _ in range(repeats + 2):
        dist.barrier()
        slowest = torch.tensor(measure(), dtype=torch.float64, device=device)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        samples.append(float(slowest))
    return samples[2:]
