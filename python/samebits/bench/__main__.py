"""python -m samebits.bench: three experiments on the block, kept apart, as tables, one JSON report and a CSV."""

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

import torch

from .. import Contract, __version__, contract_presets
from .accuracy import accuracy
from .exactness import exactness
from .latency import latency
from .layouts import ALL_LAYOUTS, layout_of
from .machine import ceiling, environment
from .operands import operands_of, shape_of
from .processes import join, process_rows, started

EXPERIMENTS = ("exactness", "latency", "accuracy")
DESCRIPTION = """\
Three experiments on the block, kept apart:
  exactness  every layout against one rank, bit by bit
  latency    the whole block against Hugging Face's Qwen3MLP on one device (eager, and in a CUDA graph), and layouts against one rank
  accuracy   the error against float64, of every contract and of Hugging Face in BF16, FP16 and FP32
Under torchrun the times of the layouts with as many ranks as processes, and nothing else.
Exit code 0: all held; 1: bits that must be equal are not; 2: usage."""


def main(arguments: Sequence[str]) -> int:
    args = parse(arguments)
    try:
        shape, layouts = shape_of(args.shape), _layouts(args.layouts)
        contract = Contract(args.contract)
        tokens = [int(word) for word in args.tokens.split(",")]
        experiments = args.experiments.split(",")
        if set(experiments) - set(EXPERIMENTS):
            raise ValueError(f"the experiments are {', '.join(EXPERIMENTS)}; {args.experiments!r} names another")
    except ValueError as problem:
        print(f"samebits.bench: {problem}", file=sys.stderr)
        return 2
    if started():
        return of_processes(args, contract, shape, tokens, layouts)
    report = head(args, contract, shape)
    if "exactness" in experiments:
        operands = operands_of(args.exact_tokens, *shape, args.device, args.seed)
        report.update(exactness(contract.name, layouts, operands))
        print_exactness(report)
    if "latency" in experiments:
        report["ceiling"] = ceiling(args.device)
        for row in latency(
            contract.name, shape, tokens, _directions(args), layouts if args.time_layouts else [], args.device, args.repeats
        ):
            report["rows"].append(row)
            print_row(row)
    if "accuracy" in experiments:
        presets = [name for name in contract_presets()]
        errors = accuracy(presets, operands_of(args.exact_tokens, *shape, args.device, args.seed))
        report.update(accuracy=errors.get(contract.name), accuracy_by=errors)
        print_accuracy(errors)
    write_files(args, report)
    return 0 if report["ok"] else 1


def of_processes(args: argparse.Namespace, contract: Contract, shape: Sequence[int], tokens: List[int], layouts: List[str]) -> int:
    """Under torchrun: the times of layouts, and nothing else."""
    args.device = join(args.device)
    first = torch.distributed.get_rank() == 0
    report = head(args, contract, shape)
    report["environment"]["transport"] = f"torch.distributed, {torch.distributed.get_backend()}"
    for row in process_rows(contract.name, (shape[0], shape[1]), tokens, _directions(args), layouts, args.device, args.repeats):
        report["rows"].append(row)
        if first:
            print_row(row)
    if first:
        write_files(args, report)
    torch.distributed.destroy_process_group()
    return 0


def write_files(args: argparse.Namespace, report: Dict[str, Any]) -> None:
    if args.json:
        write(Path(args.json), json.dumps(report, indent=1) + "\n")
    if args.csv:
        write_csv(Path(args.csv), report["rows"])


def _directions(args: argparse.Namespace) -> List[str]:
    return ["forward", "both"] if args.direction == "all" else [args.direction]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        prog="python -m samebits.bench", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", default="qwen3-8b" if cuda else "qwen3-0.6b", help="a Qwen3 size or HIDDENxINTERMEDIATE (%(default)s)")
    parser.add_argument("--contract", default="sm90-v1", help="a contract's text (%(default)s)")
    parser.add_argument("--device", default="cuda" if cuda else "cpu", help="cpu, cuda or cuda:N (%(default)s)")
    parser.add_argument("--tokens", default="1,8,32,128,512,2048,8192" if cuda else "1,8,32,128", help="that are timed (%(default)s)")
    parser.add_argument("--direction", choices=["forward", "both", "all"], default="all", help="what is timed (%(default)s)")
    parser.add_argument("--layouts", default="all", help="all, none, or a list as in tp2,tp2+cp2+sp (%(default)s)")
    parser.add_argument("--time-layouts", action="store_true", help="time them too: on a CPU, ranks as threads that share it")
    parser.add_argument("--exact-tokens", type=int, default=77, help="of the first and the third experiment (%(default)s)")
    parser.add_argument("--experiments", default=",".join(EXPERIMENTS), help="(%(default)s)")
    parser.add_argument("--repeats", type=int, default=20, help="measurements a round, three rounds (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="write the report here")
    parser.add_argument("--csv", help="write the times here")
    return parser.parse_args(arguments)


def head(args: argparse.Namespace, contract: Contract, shape: Sequence[int]) -> Dict[str, Any]:
    return {
        "schema": "samebits.report/1",
        "command": "bench",
        "version": __version__,
        "contract": {"name": contract.name, "canonical": contract.canonical, "fingerprint": contract.fingerprint},
        "environment": environment(args.device),
        "shape": {"tokens": args.exact_tokens, "hidden": shape[0], "intermediate": shape[1], "source": f"{args.shape}, seed {args.seed}"},
        "layouts": [],
        "rows": [],
        "ok": True,
    }


def _layouts(text: str) -> List[str]:
    names = ALL_LAYOUTS if text == "all" else [] if text == "none" else text.split(",")
    for name in names:
        layout_of(name)
    return names


def write(path: Path, text: str) -> None:
    """Beside its name first: nothing partial is left."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text)
    beside.replace(path)


def write_csv(path: Path, rows: List[Dict[str, Any]]) -> None:
    columns = ["direction", "tokens", "layout", "contract", "mode", "baseline", "ratio", "flops_per_second", "weight_bytes_per_second"]
    times = [f"{whose}_{what}" for whose in ("ours_us", "baseline_us") for what in ("median", "p95", "min", "max")]
    beside = path.with_name(path.name + ".part")
    with beside.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(columns + times)
        for row in rows:
            flat = [row[f"{name.rsplit('_', 1)[0]}"][name.rsplit("_", 1)[1]] for name in times]
            writer.writerow([row[column] for column in columns] + flat)
    beside.replace(path)


def print_exactness(report: Dict[str, Any]) -> None:
    shape = report["shape"]
    print(
        f"exactness: {report['contract']['name']}, {shape['hidden']}x{shape['intermediate']}, {shape['tokens']} tokens; elements that differ from tp1"
    )
    for row in report["layouts"]:
        told = row["reason"] if row["status"] == "refused" else "  ".join(f"{name} {count}" for name, count in row["mismatch"].items())
        print(f"  {row['name']:<11} {row['status']:<8} {told}")
    print(f"  repeat {report['invariance']['repeat']}, row against batch {report['invariance']['row_vs_batch']}")
    if report["power"]:
        print("  another tree would change: " + "  ".join(f"{name} {count}" for name, count in report["power"].items()), flush=True)


def print_row(row: Dict[str, Any]) -> None:
    print(
        f"latency: {row['direction']:<7} {row['tokens']:>5} tokens  {row['layout']:<11} {row['mode']:<5} {row['ours_us']['median']:>11.1f} us,"
        f" baseline {row['baseline_us']['median']:>11.1f}, ratio {row['ratio']:.2f}",
        flush=True,
    )


def print_accuracy(errors: Dict[str, Dict[str, Dict[str, float]]]) -> None:
    print("accuracy: relative L2 error against float64")
    for name, tensors in errors.items():
        print(f"  {name:<33}" + "  ".join(f"{tensor} {error['rel_l2']:.2e}" for tensor, error in tensors.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
