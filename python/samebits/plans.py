"""Plans that calls without one of their own share.

A plan is kept for each contract, shape, device, stream, direction, and number of tokens rounded up to a power of two (32 at least):
calls of 33 to 64 tokens share one. At most CACHED are kept, those used last.
"""

import threading
from collections import OrderedDict
from typing import Tuple, Union

from ._core import Contract, Plan

CACHED = 8
LEAST_TOKENS = 32


class CachedPlan:
    """A plan, and the lock of whoever computes with it: a backward reads what its forward left there."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lock = threading.Lock()


_plans: "OrderedDict[Tuple, CachedPlan]" = OrderedDict()
_lock = threading.Lock()


def rounded_tokens(tokens: int) -> int:
    return max(LEAST_TOKENS, 1 << max(0, tokens - 1).bit_length())


def cached_plan(
    contract: Union[Contract, str], hidden: int, intermediate: int, tokens: int, device: str, stream: int, backward: bool
) -> CachedPlan:
    contract = contract if isinstance(contract, Contract) else Contract(contract)
    key = (contract, hidden, intermediate, rounded_tokens(tokens), device, stream, backward)
    with _lock:
        found = _plans.get(key)
        if found is not None:
            _plans.move_to_end(key)
            return found
        made = CachedPlan(Plan(contract, hidden, intermediate, rounded_tokens(tokens), device=device, backward=backward))
        _plans[key] = made
        while len(_plans) > CACHED:
            _plans.popitem(last=False)
        return made


def cached_plans() -> int:
    """How many plans are kept."""
    with _lock:
        return len(_plans)


def clear_cache() -> None:
    """Lets go of the plans that `ffn` and `ffn_backward` keep, and of their memory."""
    with _lock:
        _plans.clear()
