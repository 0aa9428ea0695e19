"""The block on the ranks of a layout, which are threads of this process: results put together, or times."""

import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .. import Plan, contiguous_shards, local_transports, slice_weights
from .operands import Operands
from .ranks import on_ranks

GRADIENTS = ("d_gate", "d_up", "d_down")
ALL_LAYOUTS = ["tp2", "tp2+sp", "tp4", "tp2+cp2", "tp2+cp2+sp", "tp8", "tp4+cp2", "tp4+cp2+sp"]


class Layout(NamedTuple):
    tp: int
    cp: int
    sequence_parallel: bool


def layout_of(name: str) -> Layout:
    """Of "tp4+cp2+sp". ValueError for other words."""
    tp = cp = 1
    sp = False
    for word in name.split("+"):
        if word[:2] in ("tp", "cp") and word[2:].isdigit():
            tp, cp = (int(word[2:]), cp) if word[:2] == "tp" else (tp, int(word[2:]))
        elif word == "sp":
            sp = True
        else:
            raise ValueError(f"the layout is {name!r}; it is made of tpN, cpN and sp, as in tp2+cp2+sp")
    return Layout(tp, cp, sp)


def rows_of(layout: Layout, tokens: int, cp_rank: int, tp_rank: int) -> List[int]:
    """The tokens of a rank, split contiguously."""
    rows = [token for begin, end in contiguous_shards(tokens, layout.cp)[cp_rank] for token in range(begin, end)]
    if layout.sequence_parallel:
        rows = rows[len(rows) * tp_rank // layout.tp : len(rows) * (tp_rank + 1) // layout.tp]
    return rows


class Rank:
    """A rank's plan and its part of the operands."""

    def __init__(self, contract: str, layout: Layout, transport: Any, operands: Operands, backward: bool) -> None:
        x = operands.x
        device = str(x.device)
        place: Dict[str, Any] = {"device": device}
        if device == "cpu":
            place["threads"] = max(1, torch.get_num_threads() // (layout.tp * layout.cp))
        self.tokens = len(x)
        self.plan = Plan(
            contract, x.shape[1], operands.weights[0].shape[0], self.tokens, tp=layout.tp, cp=layout.cp,
            sequence_parallel=layout.sequence_parallel, backward=backward, transport=transport, **place,
        )  # fmt: skip
        self.stream = torch.cuda.Stream(x.device) if x.is_cuda else None
        shard = self.plan.shard
        self.rows = rows_of(layout, self.tokens, shard.cp_rank, shard.tp_rank)
        self.x, self.dy = x[self.rows], operands.dy[self.rows]
        self.weights = slice_weights(self.plan, *operands.weights)
        self.made: Dict[str, torch.Tensor] = {"y": torch.empty_like(self.x)}
        if backward:
            self.made["dx"] = torch.empty_like(self.x)
            self.made.update((name, torch.empty_like(self.weights[name[2:]]).contiguous()) for name in GRADIENTS)

    def forward(self) -> None:
        self.plan.forward(self.x, self.made["y"], **self.weights, tokens=self.tokens, stream=self._handle())

    def backward(self) -> None:
        results: Dict[str, Any] = {name: self.made[name] for name in ("dx", *GRADIENTS)}
        self.plan.backward(self.x, self.dy, **self.weights, **results, tokens=self.tokens, stream=self._handle())

    def wait(self) -> None:
        if self.stream is not None:
            self.stream.synchronize()

    def _handle(self) -> int:
        return 0 if self.stream is None else self.stream.cuda_stream


class Fellows:
    """The transports of ranks that are threads, and where they meet: a rank that fails frees those that wait for it."""

    def __init__(self, count: int) -> None:
        self.transports: Sequence[Any] = local_transports(count)
        self.barrier = threading.Barrier(count)

    def transport(self, rank: int) -> Optional[Any]:
        return self.transports[rank] if len(self.transports) > 1 else None

    def give_up(self, rank: int, failure: BaseException) -> None:
        self.barrier.abort()
        self.transports[rank].abort(f"rank {rank} failed: {failure}")


def results_on(contract: str, layout: Layout, operands: Operands, backward: bool) -> List[Rank]:
    """Every rank, with what it made."""
    fellows = Fellows(layout.tp * layout.cp)
    if operands.x.is_cuda:
        torch.cuda.synchronize()

    def play(rank: int) -> Rank:
        mine = Rank(contract, layout, fellows.transport(rank), operands, backward)
        if operands.x.is_cuda:
            torch.cuda.current_stream().synchronize()
        mine.forward()
        if backward:
            mine.backward()
        mine.wait()
        return mine

    return on_ranks(layout.tp * layout.cp, play, fellows.give_up)


def times_on(contract: str, layout: Layout, operands: Operands, backward: bool, repeats: int) -> List[float]:
    """Microseconds of each call, by the slowest rank."""
    fellows = Fellows(layout.tp * layout.cp)

    def play(rank: int) -> List[float]:
        mine = Rank(contract, layout, fellows.transport(rank), operands, backward)
        samples = []
        for repeat in range(repeats + 2):
            fellows.barrier.wait()
            begin = time.perf_counter()
            mine.forward()
            if backward:
                mine.backward()
            mine.wait()
            if repeat >= 2:
                samples.append((time.perf_counter() - begin) * 1e6)
        return samples

    return [max(samples) for samples in zip(*on_ranks(layout.tp * layout.cp, play, fellows.give_up))]


def slices(rank: Rank) -> Dict[str, Tuple[Any, ...]]:
    """Where a rank's results stand in the whole."""
    begin, end = rank.plan.shard.intermediate
    rows = (rank.rows,)
    return {"y": rows, "dx": rows, "d_gate": (slice(begin, end),), "d_up": (slice(begin, end),), "d_down": (slice(None), slice(begin, end))}
