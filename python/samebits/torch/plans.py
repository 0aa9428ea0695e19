"""The plans that operators of one rank share, bounded.

A plan serves one contract, shape, device, stream and direction, and as many tokens as any call has had, rounded up so that growing is
rare. At most MOST are kept, those used last. Every layer of a model has the same key: a model costs one plan for inference and one for
training.

A CUDA graph holds the addresses of its plan. So a call that is captured uses a plan of that capture alone, made then and kept until
`clear_cache`: graphs may be replayed on any streams at once, beside eager calls.
"""

import contextlib
import itertools
import threading
from typing import ContextManager, Dict, List, Tuple

import torch

from .._core import Plan
from .capture import capture_number, memory_may_move

MOST = 16
LEAST_TOKENS = 32


class _Kept:
    """A plan, and when it was used last."""

    __slots__ = ("plan", "max_tokens", "used")

    def __init__(self, plan: Plan) -> None:
        self.plan, self.max_tokens = plan, plan.max_tokens
        self.used = 0


_Key = Tuple[str, int, int, int, int, bool]
_plans: Dict[_Key, _Kept] = {}
_captured: Dict[Tuple[int, _Key], List[_Kept]] = {}  # the last one is used, the graph holds the others' addresses
_clock = itertools.count(1)
_lock = threading.Lock()


def rounded_tokens(tokens: int) -> int:
    """The next of 32, 40, 48, 56, 64, 80, ...: four steps an octave."""
    step = max(LEAST_TOKENS // 4, (1 << max(0, tokens - 1).bit_length()) // 8)
    return max(LEAST_TOKENS, -(-tokens // step) * step)


def current_stream(device: int) -> int:
    """The handle of PyTorch's current stream; 0 on a CPU (device -1)."""
    return 0 if device < 0 else torch._C._cuda_getCurrentRawStream(device)


def is_capturing(device: int) -> bool:
    return device >= 0 and torch._C._cuda_isCurrentStreamCapturing()


def plan_for(contract: str, hidden: int, intermediate: int, device: int, stream: int, backward: bool, tokens: int) -> _Kept:
    """device: PyTorch's index, -1 for a CPU."""
    key = (contract, hidden, intermediate, device, stream, backward)
    if is_capturing(device):
        number = capture_number(stream)
        if number:  # else another device's stream is captured
            return _captured_plan(number, key, tokens)
    found = _plans.get(key)
    if found is not None and found.max_tokens >= tokens:
        found.used = next(_clock)
        return found
    with _lock:
        found = _plans.get(key)
        if found is None or found.max_tokens < tokens:
            with _memory(device):
                _plans[key] = found = _make(key, tokens)
                while len(_plans) > MOST:
                    del _plans[min((other for other in _plans if other != key), key=lambda other: _plans[other].used)]
        found.used = next(_clock)
        return found


def _captured_plan(number: int, key: _Key, tokens: int) -> _Kept:
    with _lock:
        made = _captured.setdefault((number, key), [])
        if not made or made[-1].max_tokens < tokens:
            with memory_may_move():
                made.append(_make(key, tokens))
        return made[-1]


def _make(key: _Key, tokens: int) -> _Kept:
    contract, hidden, intermediate, device, _, backward = key
    where = {"device": "cpu", "threads": torch.get_num_threads()} if device < 0 else {"device": f"cuda:{device}"}
    # What a training forward leaves is PyTorch's memory.
    return _Kept(Plan(contract, hidden, intermediate, rounded_tokens(tokens), backward=backward, own_saved=not backward, **where))


def _memory(device: int) -> ContextManager[None]:
    return memory_may_move() if device >= 0 else contextlib.nullcontext()


def cached_plans() -> Tuple[int, int]:
    """How many plans are kept: for eager calls, and for captured ones."""
    with _lock:
        return len(_plans), sum(map(len, _captured.values()))


def clear_cache(captured: bool = False) -> None:
    """Lets go of the plans that eager calls share, and of their memory.

    captured=True: of those of CUDA graphs too, which must not be replayed any more.
    """
    with _lock, memory_may_move():
        _plans.clear()
        if captured:
            _captured.clear()
