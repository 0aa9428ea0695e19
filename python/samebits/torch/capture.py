"""CUDA graphs: which capture a stream is part of, and how memory is taken while it runs.

The driver is asked directly, by ctypes: PyTorch has no name for the number of a capture, and takes memory under a capture in the same way.
"""

import contextlib
import ctypes
import functools
from typing import Any, Iterator, Optional

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: this thread may take and free memory while any stream is captured


@functools.lru_cache(maxsize=None)
def _driver() -> Optional[Any]:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


@contextlib.contextmanager
def memory_may_move() -> Iterator[None]:
    """Within it this thread makes and frees plans, whatever is being captured here or elsewhere."""
    driver = _driver()
    if driver is None:
        yield
        return
    mode = ctypes.c_int(_RELAXED)
    driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))  # swaps: `mode` is the one before
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def capture_number(stream: int) -> int:
    """Of the capture that the stream is part of, unlike that of every other in this process; 0 where there is none."""
    driver = _driver()
    status, number = ctypes.c_int(0), ctypes.c_uint64(0)
    if driver is not None:
        code = driver.cuStreamGetCaptureInfo_v2(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), None, None, None)
        if code != 0:
            raise RuntimeError(f"asking for the capture of a stream: the CUDA driver answers {code}")
    return number.value
