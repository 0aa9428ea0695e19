#!/usr/bin/env python3
"""The tables of docs/scaling.md: what a rank computes and moves, from `samebits bench --explain`.

usage: bench/scaling_tables.py [--binary build/tools/samebits] [--links nvlink=240:11,400g=45:10]

Milliseconds of compute are those of a GPU that does 700 TFLOP/s and reads 4.2 TB/s, whichever takes longer; nothing overlaps.
"""
import argparse
import json
import subprocess

FLOPS, BANDWIDTH = 700e12, 4.2e12


def explain(args, shape, contract, layouts, tokens, direction, *more):
    command = [args.binary, "bench", "--explain", "--shape", shape, "--contract", contract, "--layouts", ",".join(layouts), "--tokens",
               str(tokens), "--direction", direction, "--links", args.links, "--json", "-", "--overlap", "off", *more]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def table(args, title, shape, contract, layouts, tokens, direction, *more):
    report = explain(args, shape, contract, layouts, tokens, direction, *more)
    links = [link["name"] for link in report["links"]]
    print(f"\n{title}\n")
    print("| layout | computes | MB to others | " + " | ".join(f"{name} ms" for name in links) + " | most of it |")
    print("|---|---|---|" + "---|" * (len(links) + 1))
    for row in report["rows"]:
        if "refused" in row:
            print(f"| {row['layout']} | refused |" + " |" * (len(links) + 2))
            continue
        compute = max(row["flops"] / FLOPS, row["weight_bytes"] / BANDWIDTH) * 1e3
        moved = sum(max(c["sent"], c["received"]) for c in row["collectives"]) / 1e6
        times = [sum(c["seconds"][name] for c in row["collectives"]) * 1e3 for name in links]
        most = max(row["collectives"], key=lambda c: c["seconds"][links[-1]])["what"] if row["collectives"] else ""
        print(f"| {row['layout']} | {compute:.3f} ms | {moved:.4g} | " + " | ".join(f"{t:.3f}" for t in times) + f" | {most} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/tools/samebits")
    parser.add_argument("--links", default="nvlink=240:11,400g=45:10")
    args = parser.parse_args()
    tp = ["tp1", "tp2", "tp4", "tp8", "tp16"]
    cp = ["tp1", "cp2", "cp4", "cp8", "cp16", "cp32", "cp64"]
    for shape in ("qwen3-8b", "qwen3-32b"):
        table(args, f"{shape}, `sm90-v1`, 32 tokens, forward:", shape, "sm90-v1", tp, 32, "forward")
        table(args, f"{shape}, `hf-sm90-v1` (down by rows), 32 tokens, forward:", shape, "hf-sm90-v1", tp, 32, "forward")
        table(args, f"{shape}, `sm90-v1`, 8192 tokens, forward and backward:", shape, "sm90-v1", tp, 8192, "both")
        table(args, f"{shape}, `sm90-v1`, 65536 tokens, forward and backward:", shape, "sm90-v1", cp, 65536, "both")


if __name__ == "__main__":
    main()
