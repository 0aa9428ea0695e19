"""Layouts by their names, and what a rank of them holds: whole numbers alone."""
import re
from typing import NamedTuple


class Layout(NamedTuple):
    """Rank = context rank * tp + tensor rank, as in samebits."""
    tp: int = 1
    cp: int = 1
    sp: bool = False

    @property
    def ranks(self):
        return self.tp * self.cp

    def rows(self, tokens):
        """Of x that a rank holds. PyTorch's collectives want the same from every rank: what is missing is padding."""
        of_context = -(-tokens // self.cp)
        return -(-of_context // self.tp) if self.sp else of_context


def parse_layout(name):
    """Of tp2, tp2+sp, cp2, tp2+cp2+sp."""
    match = re.fullmatch(r"(?:tp(\d+))?\+?(?:cp(\d+))?(\+sp)?", name)
    if not match or not (match[1] or match[2]) or name.startswith("+"):
        raise ValueError(f"'{name}' is no layout: tp2, tp2+sp, cp2, tp2+cp2+sp")
    return Layout(int(match[1] or 1), int(match[2] or 1), bool(match[3]))


MANY_TOKENS = 2048  # a call is long: one turn through the sets is a graph
FEWEST_CALLS = 5    # of a graph of shorter calls


def rotation(weight_bytes, cache_bytes, tokens):
    """(sets of weights, calls of a graph), as samebits chooses them: consecutive calls find no weights in the cache."""
    sets = max(2, min(16, 3 * cache_bytes // weight_bytes + 2))
    fewest = FEWEST_CALLS if tokens < MANY_TOKENS else 1
    return sets, -(-fewest // sets) * sets
