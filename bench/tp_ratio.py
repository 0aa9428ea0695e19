#!/usr/bin/env python3
"""samebits on layouts of several GPUs beside PyTorch on the same layouts and Hugging Face's Qwen3MLP on one GPU: one run, one machine.

usage: bench/tp_ratio.py [--binary build/tools/samebits] [--layouts tp2,tp2+sp,cp2] [--hidden 4096] [--intermediate 12288]
                         [--tokens 1,8,32,128,512,2048,8192] [--contracts sm90-v1,hf-sm90-v1] [--directions forward,both]
                         [--overlaps off,auto] [--replays 30] [--mpirun mpirun] [--json FILE]

First PyTorch, a process a GPU (bench/torch_layouts.py): the module on GPU 0, then its tensor parallelism on each layout. Then
`mpirun samebits bench --transport nccl`, once a contract and a setting of --overlap: off is serial, auto overlapped. All sides are
CUDA graphs over sets of weights that together exceed the cache, begun by all ranks together; a row is the median of --replays replays of the slowest
rank. `both` is forward and backward. Ratios are ours / theirs. Exposed is what the replays take beyond replays in turn of the same calls with the
exchanges left out; moves is what the rank that moves most sends or receives in a call.

Both sides use PyTorch's NCCL where its wheel has one. NVLink multicast stays off: NCCL_NVLS_ENABLE=0 unless it is set.
"""
import argparse
import itertools
import json
import os
import shlex
import subprocess
import sys
import tempfile

from layouts import parse_layout
from tables import print_table, write_report
from tp_rows import HEADER, cells_of, join_rows

HERE = os.path.dirname(os.path.abspath(__file__))
# Shared memory alone; copies between processes are no business of a container.
MPI_ENVIRONMENT = {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                   "OMPI_MCA_orte_abort_on_non_zero_status": "1"}


def gpu_count(binary):
    """As samebits counts them."""
    try:
        done = subprocess.run([binary, "info", "--json", "-"], capture_output=True, text=True, check=True)
        return len(json.loads(done.stdout)["devices"])
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"tp_ratio: {binary} does not run: {error}")


def folder_of_torch_nccl():
    """Where PyTorch's wheels keep libnccl.so.2; none: the loader's own."""
    for entry in sys.path:
        folder = os.path.join(entry, "nvidia", "nccl", "lib")
        if os.path.exists(os.path.join(folder, "libnccl.so.2")):
            return folder
    return None


def run_torch(args, size, folder):
    """(what rank 0 of the processes of bench/torch_layouts.py has written, the command of each)"""
    layouts = ["tp1", *[name for name in args.layouts.split(",") if parse_layout(name).ranks > 1]]
    path = os.path.join(folder, "torch.json")
    command = [sys.executable, os.path.join(HERE, "torch_layouts.py"), "--size", str(size), "--meet", os.path.join(folder, "meet"),
               "--layouts", ",".join(layouts), "--tokens", args.tokens, "--directions", args.directions, "--hidden", str(args.hidden),
               "--intermediate", str(args.intermediate), "--replays", str(args.replays), "--json", path]
    processes = [subprocess.Popen([*command, "--rank", str(rank)]) for rank in range(size)]
    try:
        waiting = dict(enumerate(processes))
        while waiting:
            for rank, process in list(waiting.items()):
                try:
                    code = process.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    continue
                del waiting[rank]
                if code != 0:
                    sys.exit(f"tp_ratio: rank {rank} of PyTorch ended with {code}")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()  # it waits for a rank that is gone
                process.wait()
    with open(path, encoding="utf-8") as file:
        return json.load(file), shlex.join(command)


def samebits_command(args, size, contract, overlap, path):
    directions = args.directions.split(",")
    return [args.mpirun, "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-np", str(size), args.binary, "bench",
            "--engine", "cuda", "--transport", "nccl", "--shape", f"{args.hidden}x{args.intermediate}", "--layouts", args.layouts,
            "--tokens", args.tokens, "--direction", "all" if len(directions) > 1 else directions[0], "--contract", contract,
            "--overlap", overlap, "--repeats", str(args.replays), "--json", path]


def run_samebits(args, size, contract, overlap, folder):
    """(the report, the command)"""
    path = os.path.join(folder, "samebits.json")
    if os.path.exists(path):
        os.remove(path)
    command = samebits_command(args, size, contract, overlap, path)
    environment = {**os.environ, **MPI_ENVIRONMENT}
    if nccl := folder_of_torch_nccl():
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [nccl, environment.get("LD_LIBRARY_PATH")]))
    print(f"samebits {contract}, overlap {overlap}", file=sys.stderr, flush=True)
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0 or not os.path.exists(path):
        sys.exit(f"tp_ratio: samebits ended with {done.returncode}: {shlex.join(command)}")
    with open(path, encoding="utf-8") as file:
        return json.load(file), shlex.join(command)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/tools/samebits")
    parser.add_argument("--layouts", default="tp2,tp2+sp,cp2")
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--intermediate", type=int, default=12288)
    parser.add_argument("--tokens", default="1,8,32,128,512,2048,8192")
    parser.add_argument("--contracts", default="sm90-v1,hf-sm90-v1")
    parser.add_argument("--directions", default="forward,both")
    parser.add_argument("--overlaps", default="off,auto")
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument("--mpirun", default=os.environ.get("SAMEBITS_MPIRUN", "mpirun"))
    parser.add_argument("--json")
    args = parser.parse_args()
    try:
        layouts = [parse_layout(name) for name in args.layouts.split(",")]
    except ValueError as error:
        parser.error(str(error))
    for name, layout in zip(args.layouts.split(","), layouts):
        if args.intermediate % layout.tp:
            parser.error(f"{name}: PyTorch cuts --intermediate {args.intermediate} into equal parts")
    for flag, words, allowed in [("--directions", args.directions, {"forward", "both"}), ("--overlaps", args.overlaps, {"off", "auto"})]:
        if set(words.split(",")) - allowed:
            parser.error(f"{flag} {words}: {', '.join(sorted(allowed))}")
    return args, max(layout.ranks for layout in layouts)


def main():
    args, size = parse_arguments()
    if (gpus := gpu_count(args.binary)) < size:
        sys.exit(f"tp_ratio: --layouts {args.layouts} wants {size} GPUs, and this machine has {gpus}")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    contracts = args.contracts.split(",")
    reports = {}
    with tempfile.TemporaryDirectory() as folder:
        theirs, of_torch = run_torch(args, size, folder)
        commands = [of_torch]
        for contract, overlap in itertools.product(contracts, args.overlaps.split(",")):
            reports[contract, overlap], command = run_samebits(args, size, contract, overlap, folder)
            commands.append(command)
    rows = join_rows(reports, theirs["rows"], contracts)
    first = next(iter(reports.values()))
    report = theirs["head"] | {
        "command": shlex.join([sys.executable.rsplit("/", 1)[-1], *sys.argv]), "commands": commands, "gpus": size,
        "nvls": os.environ["NCCL_NVLS_ENABLE"], "samebits": first["version"], "environment": first["environment"],
        "notes": first["notes"], "ceiling": first["ceiling"], "hidden": args.hidden, "intermediate": args.intermediate,
        "replays": args.replays, "pytorch_rows": theirs["rows"], "rows": rows}
    if args.json != "-":
        print(f"{size} of {report['device']}, driver {report['driver']}, torch {report['torch']}, transformers {report['transformers']}, "
              f"NCCL {report['nccl']} and {first['environment']['nccl']['version']}; {args.hidden}x{args.intermediate}, microseconds, slowest rank")
        print_table(HEADER, [cells_of(row) for row in rows])
    write_report(args.json, report)


if __name__ == "__main__":
    main()
