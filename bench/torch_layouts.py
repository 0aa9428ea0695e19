#!/usr/bin/env python3
"""The block on layouts by PyTorch: a process of bench/tp_ratio.py, which starts one a GPU.

Hugging Face's Qwen3MLP, cut as it always is: columns of gate and up, rows of down, NCCL collectives of bf16 where a sum or a copy
crosses ranks. tp: all-reduce of y, and of dX in backward. +sp: all-gather of x before and reduce-scatter of y after, the reverse in backward.
cp: each rank its share of the tokens, weight gradients all-reduced. tp1: the module as it is, on GPU 0. Token counts that a layout
does not divide are padded.

CUDA graphs of several calls over sets of weights that together exceed the cache. Before a replay each rank holds its stream until everything
is enqueued, and the ranks meet in a collective of a few bytes; a sample is the slowest rank's time between events around the replay, divided by
the calls.
"""
import argparse
import json
import math
import sys

import torch
import torch.distributed as dist

from hugging_face import qwen3_mlp, report_head
from layouts import parse_layout, rotation

HOLD_CYCLES = 600_000  # of the GPU's clock: 0.3 ms and more, longer than enqueueing takes
WARM_UP = 50e3         # microseconds
MOST_WARM_UP = 100     # replays


class CopyIn(torch.autograd.Function):
    """x, which all tensor ranks hold; backward adds their dX."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dx):
        dx = dx.contiguous()
        dist.all_reduce(dx, group=ctx.group)
        return dx, None


class SumOut(torch.autograd.Function):
    """Adds the tensor ranks' parts of y."""

    @staticmethod
    def forward(ctx, y, group):
        ctx.mark_dirty(y)
        dist.all_reduce(y, group=group)
        return y

    @staticmethod
    def backward(ctx, dy):
        return dy, None


def gathered(rows, group):
    out = rows.new_empty(rows.shape[0] * dist.get_world_size(group), rows.shape[1])
    dist.all_gather_into_tensor(out, rows.contiguous(), group=group)
    return out


def summed_slice(rows, group):
    out = rows.new_empty(rows.shape[0] // dist.get_world_size(group), rows.shape[1])
    dist.reduce_scatter_tensor(out, rows.contiguous(), group=group)
    return out


class GatherRows(torch.autograd.Function):
    """Sequence parallelism before the block."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return gathered(x, group)

    @staticmethod
    def backward(ctx, dx):
        return summed_slice(dx, ctx.group), None


class ScatterRows(torch.autograd.Function):
    """Sequence parallelism behind the block."""

    @staticmethod
    def forward(ctx, y, group):
        ctx.group = group
        return summed_slice(y, group)

    @staticmethod
    def backward(ctx, dy):
        return gathered(dy, ctx.group), None


class Groups:
    """Of one layout; every rank of the world makes them."""

    def __init__(self, layout, rank):
        self.whole = self.tensor = self.context = None
        if layout.ranks == 1:
            return
        self.whole = dist.new_group(list(range(layout.ranks)))
        for c in range(layout.cp if layout.tp > 1 else 0):
            members = [c * layout.tp + t for t in range(layout.tp)]
            group = dist.new_group(members)
            if rank in members:
                self.tensor = group
        for t in range(layout.tp if layout.cp > 1 else 0):
            members = [c * layout.tp + t for c in range(layout.cp)]
            group = dist.new_group(members)
            if rank in members:
                self.context = group


class RankBlock:
    """One rank's slices of the block's weights, so many times over that consecutive calls do not find theirs in the cache."""

    def __init__(self, args, layout, groups):
        self.layout, self.groups = layout, groups
        held = args.intermediate // layout.tp
        self.weight_bytes = 6 * args.hidden * held
        self.cache_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        sets, _ = rotation(self.weight_bytes, self.cache_bytes, 1)
        self.hidden = args.hidden
        self.modules = [qwen3_mlp(args.hidden, held) for _ in range(sets)]

    def y_of(self, module, x):
        group = self.groups.tensor
        if group is None:
            return module(x)
        if self.layout.sp:
            return ScatterRows.apply(module(GatherRows.apply(x, group)), group)
        return SumOut.apply(module(CopyIn.apply(x, group)), group)

    def gradients(self, module, x, dy):
        grads = torch.autograd.grad(self.y_of(module, x), [x, *module.parameters()], dy)
        if self.groups.context is not None:
            for grad in grads[1:]:
                dist.all_reduce(grad, group=self.groups.context)

    def graph(self, tokens, direction):
        """(a graph of several calls, how many)"""
        rows, both = self.layout.rows(tokens), direction == "both"
        xs = [torch.randn(rows, self.hidden, device="cuda", dtype=torch.bfloat16).requires_grad_(both) for _ in self.modules]
        dys = [torch.randn_like(x) for x in xs] if both else []
        _, calls = rotation(self.weight_bytes, self.cache_bytes, tokens)

        def call(i):
            if both:
                self.gradients(self.modules[i], xs[i], dys[i])
            else:
                with torch.no_grad():
                    self.y_of(self.modules[i], xs[i])

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for i in range(len(self.modules)):
                call(i)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # Of this thread alone: PyTorch's own threads ask for events meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for i in range(calls):
                call(i % len(self.modules))
        torch.cuda.synchronize()
        return graph, calls


class Replays:
    """Of graphs that the ranks of a group, or this GPU alone (None), replay together."""

    def __init__(self, group):
        self.group = group
        self.token = torch.zeros(1, device="cuda")
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def once(self, graph):
        torch.cuda._sleep(HOLD_CYCLES)
        if self.group is not None:
            dist.all_reduce(self.token, group=self.group)
        self.begin.record()
        graph.replay()
        self.end.record()
        torch.cuda.synchronize()
        return self.begin.elapsed_time(self.end) * 1e3

    def slowest(self, times):
        """Replay by replay the longest of any rank."""
        if self.group is None:
            return times
        all_times = torch.tensor(times, device="cuda", dtype=torch.float64)
        dist.all_reduce(all_times, op=dist.ReduceOp.MAX, group=self.group)
        return all_times.tolist()

    def microseconds(self, graph, replays):
        self.once(graph)
        once = self.slowest([self.once(graph)])[0]
        for _ in range(max(1, min(MOST_WARM_UP, math.ceil(WARM_UP / once)))):
            self.once(graph)
        return self.slowest([self.once(graph) for _ in range(replays)])


def spread_of(samples):
    ordered = sorted(samples)
    count, middle = len(ordered), len(ordered) // 2
    median = ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return {"median": median, "p95": ordered[math.ceil(0.95 * count) - 1], "min": ordered[0], "max": ordered[-1]}


def time_layout(args, name, groups):
    layout = parse_layout(name)
    block, replays, rows = RankBlock(args, layout, groups), Replays(groups.whole), []
    for direction in args.directions.split(","):
        for tokens in map(int, args.tokens.split(",")):
            graph, calls = block.graph(tokens, direction)
            samples = [time / calls for time in replays.microseconds(graph, args.replays)]
            del graph  # NCCL keeps a communicator until no graph refers to it
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            rows.append({"layout": name, "direction": direction, "tokens": tokens, "us": spread_of(samples), "calls_a_graph": calls,
                         "sets": len(block.modules)})
            if args.rank == 0:
                print(f"PyTorch {name} {direction} {tokens}: {rows[-1]['us']['median']:.1f} us", file=sys.stderr, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["rank", "size", "hidden", "intermediate", "replays"]:
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ["meet", "layouts", "tokens", "directions", "json"]:
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    torch.manual_seed(args.rank)
    torch.cuda.set_device(args.rank)
    dist.init_process_group("nccl", init_method=f"file://{args.meet}", rank=args.rank, world_size=args.size,
                            device_id=torch.device("cuda", args.rank))
    rows = []
    for name in args.layouts.split(","):
        layout = parse_layout(name)
        groups = Groups(layout, args.rank)
        if args.rank < layout.ranks:
            rows += time_layout(args, name, groups)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        dist.barrier(device_ids=[args.rank])
    if args.rank == 0:
        head = report_head("samebits.tp_ratio/1") | {"nccl": ".".join(map(str, torch.cuda.nccl.version()))}
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"head": head, "rows": rows}, out)
    dist.barrier(device_ids=[args.rank])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
