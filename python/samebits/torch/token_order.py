"""Which tokens of the global sequence the ranks of a layout hold, from the shape of a rank's tensor."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from .._core import contiguous_shards, zigzag_shards

Shards = List[List[Tuple[int, int]]]  # [begin, end) intervals of each context rank

RULES = {"contiguous": contiguous_shards, "zigzag": zigzag_shards}


class Held(NamedTuple):
    """What a call needs to know."""

    shards: Shards
    tokens: int  # of the whole sequence
    most: int  # tokens of the context rank that holds most
    mine: int  # tokens of this context rank


class TokenOrder:
    """Tensors are [..., T, H]; what stands before T is a batch of sequences, whose tokens follow each other sequence by sequence.

    Every context rank holds the same number of tokens of every sequence, and under sequence parallelism every tensor rank of it an equal
    slice of a single sequence. `given` says otherwise: the intervals of each context rank, for calls of exactly those tokens.
    """

    def __init__(self, tp: int, cp: int, cp_rank: int, sequence_parallel: bool, rule: str) -> None:
        if rule not in RULES:
            raise ValueError(f"shards is {rule!r}; it is {' or '.join(RULES)}, and other splits go by set_shards")
        self.slices = tp if sequence_parallel else 1
        self.cp, self.cp_rank, self.rule = cp, cp_rank, rule
        self.given: Optional[Held] = None

    def give(self, shards: Optional[Shards]) -> None:
        if shards is not None and len(shards) != self.cp:
            raise ValueError(f"shards of {len(shards)} context ranks, the mesh has {self.cp}")
        self.given = None if shards is None else self._held([[(int(b), int(e)) for b, e in rank] for rank in shards])

    def of(self, shape: Sequence[int], ordered: bool) -> Held:
        """shape: of a rank's tensor. ordered: whether weight gradients are summed, for which the order of tokens matters."""
        if self.given is not None:
            return self.given
        count, length = 1, shape[-2] if len(shape) > 1 else 1
        for size in shape[:-2]:
            count *= size
        if self.slices > 1 and count > 1:
            if ordered:
                raise ValueError(
                    f"a rank's tensor is {list(shape)} under sequence parallelism: its rows are {count} slices, no slice of one sequence. "
                    "Pass one sequence [T, H] (packed, if there are several), or say with set_shards which tokens the ranks hold"
                )
            count, length = 1, count * length
        length *= self.slices
        whole = RULES[self.rule](length * self.cp, self.cp)
        return self._held([[(b + i * length * self.cp, e + i * length * self.cp) for i in range(count) for b, e in rank] for rank in whole])

    def _held(self, shards: Shards) -> Held:
        counts = [sum(end - begin for begin, end in rank) for rank in shards]
        return Held(shards, sum(counts), max(counts), counts[self.cp_rank])
