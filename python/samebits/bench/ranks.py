"""Ranks as threads of this process."""

import threading
from typing import Any, Callable, List, Optional

from .. import RankError

# What a rank raises because another one has failed.
ECHOES = (RankError, threading.BrokenBarrierError)


def on_ranks(
    count: int,
    body: Callable[[int], Any],
    give_up: Optional[Callable[[int, BaseException], None]] = None,
    timeout: Optional[float] = None,
) -> List[Any]:
    """body(rank) on a thread a rank. Raises the first failure that is no echo of another rank's.

    give_up(rank, failure) is called where a rank fails, and lets go of those that would wait for it. A rank that is not done
    after `timeout` seconds is an AssertionError.
    """
    results: List[Any] = [None] * count
    failures: List[BaseException] = []

    def play(rank: int) -> None:
        try:
            results[rank] = body(rank)
        except BaseException as failure:  # noqa: BLE001: raised below
            failures.append(failure)
            if give_up is not None:
                give_up(rank, failure)

    # Daemons: a rank that hangs does not keep the interpreter.
    threads = [threading.Thread(target=play, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
        assert not thread.is_alive(), "a rank hangs"
    if failures:
        raise next((failure for failure in failures if not isinstance(failure, ECHOES)), failures[0])
    return results
