"""Tensors as `Plan` takes them from callers to whom the cost of DLPack matters: tuples of eight numbers."""

from typing import NoReturn, Tuple

import torch

from .._core import BF16, F16, F32

Described = Tuple[int, int, int, int, int, int, int, int]

_CPU, _CUDA = 1, 2  # DLPack's device types
_CODES = {torch.bfloat16: BF16, torch.float16: F16, torch.float32: F32}


def described(name: str, tensor: torch.Tensor) -> Described:
    """Of a matrix, used where it lies. TypeError for a dtype that the library has no name for, ValueError for other axes."""
    try:
        rows, cols = tensor.shape
        row_stride, col_stride = tensor.stride()
        code = _CODES[tensor.dtype]
    except (KeyError, ValueError):
        _refuse(name, tensor)
    index = tensor.get_device()  # -1: a CPU
    return (tensor.data_ptr(), rows, cols, row_stride, col_stride, code, _CPU, 0) if index < 0 else (
        tensor.data_ptr(), rows, cols, row_stride, col_stride, code, _CUDA, index)  # fmt: skip


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """[..., H] as [tokens, H]: a view where strides allow it, else a copy."""
    return tensor if tensor.dim() == 2 else tensor.reshape(-1, tensor.shape[-1])


def _refuse(name: str, tensor: torch.Tensor) -> NoReturn:
    if tensor.dtype not in _CODES:
        raise TypeError(f"{name} is {str(tensor.dtype).replace('torch.', '')}, the plan expects bf16")
    raise ValueError(f"{name} is {list(tensor.shape)}; it has two axes")
