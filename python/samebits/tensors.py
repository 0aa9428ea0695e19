"""Digests, comparisons and seeded values."""

from typing import Any

from . import _core
from ._core import Difference
from .arrays import Array, OptionalArray, to_host


def digest(array: Array) -> str:
    """128 bits of an array, 32 hex digits: the same for the same dtype, rows, columns and bits on every machine.

    bfloat16, float16 or float32, of any strides. Leading axes become rows, [n] is 1 x n. An array on a device is copied to the host
    (PyTorch, CuPy). TypeError for another dtype, ValueError for device memory of other libraries.
    """
    return _core.digest(to_host(array))


def compare(a: Array, b: Array, *, any_nan_equal: bool = False) -> Difference:
    """How two arrays of one shape and dtype differ, bit by bit; `str()` of it is a line to print.

    any_nan_equal takes two NaNs for the same whatever their bits. ValueError where dtypes or shapes differ.
    """
    return _core.compare(to_host(a), to_host(b), any_nan_equal=any_nan_equal)


def seeded(tensor: str, rows: int, cols: int, seed: int = 0, out: OptionalArray = None) -> Any:
    """The seeded tensor "x", "gate", "up", "down" or "dy" of [rows, cols], bfloat16: the same on every machine and in every language.

    A NumPy array, which needs numpy and ml-dtypes, or `out` filled: a host array.
    """
    if out is None:
        import ml_dtypes
        import numpy

        out = numpy.empty((rows, cols), ml_dtypes.bfloat16)
    elif tuple(out.shape) != (rows, cols):
        raise ValueError(f"out is {list(out.shape)}, the seeded tensor {[rows, cols]}")
    _core.fill_seeded(out, tensor, seed, cols)
    return out
