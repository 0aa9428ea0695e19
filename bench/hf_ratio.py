#!/usr/bin/env python3
"""samebits beside Hugging Face's Qwen3MLP: one block in BF16 on one GPU, timed in turn, in the same minute.

usage: bench/hf_ratio.py [--binary build/tools/samebits] [--hidden 4096] [--intermediate 12288]
                         [--tokens 1,8,32,128,512,2048,8192] [--contracts sm90-v1,hf-sm90-v1] [--directions forward,both]
                         [--rounds 3] [--replays 30] [--json FILE]

Both sides are CUDA graphs of several calls over sets of weights that together are larger than the GPU's cache. A measurement is
the median of --replays replays, timed by events, divided by the calls. Hugging Face and samebits (a process that waits on
`samebits bench --serve`) are measured in turn, --rounds times; a row has the medians of the medians. `both` is forward and backward: dX and
the three weight gradients. ratio is ours / Hugging Face. The fraction is of the read bandwidth that samebits measures, counting the
weights (and gradients) once, up to 128 tokens, and of the best large product of cuBLASLt above.
"""
import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time

import torch

from hugging_face import qwen3_mlp, report_head
from tables import print_table, write_report

FEW_TOKENS = 128   # up to here the weights' bytes are what a block costs
FEWEST_CALLS = 5   # of a graph
WARM_UP = 0.15     # seconds


class HuggingFace:
    """Blocks enough that consecutive calls do not find their weights in the cache."""

    def __init__(self, hidden, intermediate, most_tokens):
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        count = max(2, min(16, 3 * cache // (6 * hidden * intermediate) + 2))
        self.calls = -(-FEWEST_CALLS // count) * count
        self.blocks = [qwen3_mlp(hidden, intermediate) for _ in range(count)]
        self.x = [torch.randn(most_tokens, hidden, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
        self.dy = [torch.randn_like(x) for x in self.x]

    def graph(self, tokens, direction):
        """`calls` calls as one graph."""
        inputs = [x[:tokens].clone().requires_grad_(direction == "both") for x in self.x]
        grads = [dy[:tokens] for dy in self.dy]

        def call(i):
            block, x = self.blocks[i], inputs[i]
            if direction == "both":
                torch.autograd.grad(block(x), [x, *block.parameters()], grads[i])
            else:
                with torch.no_grad():
                    block(x)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for i in range(len(self.blocks)):
                call(i)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(self.calls):
                call(i % len(self.blocks))
        return graph

    def median_us(self, graph, replays):
        until = time.monotonic() + WARM_UP
        while time.monotonic() < until:
            graph.replay()
            torch.cuda.synchronize()
        times = []
        for _ in range(replays):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / self.calls)
        return statistics.median(times)


class Samebits:
    """`samebits bench --serve`, asked for one row at a time."""

    def __init__(self, args, directions):
        command = [args.binary, "bench", "--engine", "cuda", "--shape", f"{args.hidden}x{args.intermediate}",
                   "--tokens", args.tokens, "--direction", "both" if "both" in directions else "forward",
                   "--no-baseline", "--serve", "--repeats", str(args.replays)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.head = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"samebits ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            sys.exit(f"samebits: {answer['error']}")
        return answer

    def row(self, contract, tokens, direction):
        self.process.stdin.write(f"{contract} {tokens} {direction}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def fraction_of_ceiling(row, us, ceiling):
    """Of the row's bytes or FLOP a second, at `us` a call."""
    scale = row["ours_us"]["median"] / us
    if row["tokens"] <= FEW_TOKENS:
        return row["weight_bytes_per_second"] * scale / ceiling["read_bytes_per_second"]
    rates = ceiling["flops_per_second"].values()
    return row["flops_per_second"] * scale / max(rates) if rates else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/tools/samebits")
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--intermediate", type=int, default=12288)
    parser.add_argument("--tokens", default="1,8,32,128,512,2048,8192")
    parser.add_argument("--contracts", default="sm90-v1,hf-sm90-v1")
    parser.add_argument("--directions", default="forward,both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument("--json")
    args = parser.parse_args()
    tokens_list = [int(word) for word in args.tokens.split(",")]
    directions, contracts = args.directions.split(","), args.contracts.split(",")
    torch.manual_seed(0)

    samebits = Samebits(args, directions)
    hf = HuggingFace(args.hidden, args.intermediate, max(tokens_list))
    ceiling = samebits.head["ceiling"]
    rows = []
    for direction, tokens in itertools.product(directions, tokens_list):
        graph = hf.graph(tokens, direction)
        theirs, ours = {c: [] for c in contracts}, {c: [] for c in contracts}
        for _, contract in itertools.product(range(args.rounds), contracts):
            theirs[contract].append(hf.median_us(graph, args.replays))
            ours[contract].append(samebits.row(contract, tokens, direction))
        del graph
        torch.cuda.empty_cache()
        for contract in contracts:
            medians = [row["ours_us"]["median"] for row in ours[contract]]
            us, hf_us = statistics.median(medians), statistics.median(theirs[contract])
            rows.append({"contract": contract, "direction": direction, "tokens": tokens, "ours_us": us, "hf_us": hf_us,
                         "ratio": us / hf_us, "ceiling": "read" if tokens <= FEW_TOKENS else "product",
                         "fraction": fraction_of_ceiling(ours[contract][0], us, ceiling),
                         "ours_rounds_us": medians, "hf_rounds_us": theirs[contract]})
            print(f"{contract} {direction} {tokens}: {us:.1f} us, Hugging Face {hf_us:.1f}", file=sys.stderr, flush=True)
    samebits.close()

    rows.sort(key=lambda row: (contracts.index(row["contract"]), directions.index(row["direction"]), row["tokens"]))
    report = report_head("samebits.hf_ratio/1")
    report |= {"samebits": samebits.head["version"], "hidden": args.hidden, "intermediate": args.intermediate,
               "calls_a_graph": hf.calls, "sets": len(hf.blocks), "rounds": args.rounds, "replays": args.replays,
               "ceiling": ceiling, "rows": rows}
    if args.json != "-":
        print(f"{report['device']}, driver {report['driver']}, torch {report['torch']}, transformers {report['transformers']}; "
              f"{args.hidden}x{args.intermediate}, microseconds")
        print_table(["contract", "direction", "tokens", "ours", "Hugging Face", "ratio", "of ceiling"],
                    [[row["contract"], row["direction"], row["tokens"], f"{row['ours_us']:.1f}", f"{row['hf_us']:.1f}",
                      f"{row['ratio']:.2f}", "-" if row["fraction"] is None else f"{100 * row['fraction']:.0f}% {row['ceiling']}"]
                     for row in rows])
    write_report(args.json, report)


if __name__ == "__main__":
    main()
