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


def two_levels(args, shape, contract, layouts, per_node, tokens):
    """Context ranks on machines of `per_node`: what leaves a machine, a rank, in one level and in two."""
    one = explain(args, shape, contract, layouts, tokens, "both")
    two = explain(args, shape, contract, layouts, tokens, "both", "--ranks-per-node", str(per_node))
    inside, between = [link["name"] for link in one["links"]]
    print(f"\n{shape}, `{contract}`, {tokens} tokens, forward and backward, {per_node} ranks a machine:\n")
    print("| layout | machines | MB between machines, one level | two levels | ms, one level | two levels |")
    print("|---|---|---|---|---|---|")
    for single, double in zip(one["rows"], two["rows"]):
        ranks = int(single["layout"][2:])
        bytes_of = lambda collectives: sum(max(c["sent"], c["received"]) for c in collectives)
        outside = (ranks - per_node) / (ranks - 1)  # of a rank's peers
        crossing = [c for c in double["collectives"] if c["between_machines"]]
        local = [c for c in double["collectives"] if not c["between_machines"]]
        ms = [1e3 * sum(c["seconds"][name] for c in group) for name, group in
              ((between, single["collectives"]), (between, crossing), (inside, local))]
        print(f"| {single['layout']} | {ranks // per_node} | {bytes_of(single['collectives']) * outside / 1e6:.4g} | "
              f"{bytes_of(crossing) / 1e6:.4g} | {ms[0]:.2f} | {ms[1] + ms[2]:.2f} |")


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
        two_levels(args, shape, "sm90-v1", ["cp16", "cp32", "cp64"], 8, 65536)
        two_levels(args, shape, "hf-sm90-v1", ["cp16", "cp32", "cp64"], 8, 65536)


if __name__ == "__main__":
    main()
