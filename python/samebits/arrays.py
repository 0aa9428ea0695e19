"""What the package needs to know of arrays of other libraries: where they lie, and how to make one more of the kind."""

import sys
from typing import Any, Optional, Tuple

Array = Any  # has __dlpack__, or __array_interface__
OptionalArray = Optional[Array]


def _of(module: str, name: str, array: Array) -> bool:
    """Whether the array is of a class of a module, which is not imported for the question."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(array, cls)


def is_numpy(array: Array) -> bool:
    return _of("numpy", "ndarray", array)


def is_torch(array: Array) -> bool:
    return _of("torch", "Tensor", array)


def is_cupy(array: Array) -> bool:
    return _of("cupy", "ndarray", array)


def kind_of(array: Array) -> str:
    return f"{type(array).__module__.split('.')[0]}.{type(array).__name__}"


def shape_of(name: str, array: Array) -> Tuple[int, ...]:
    shape = getattr(array, "shape", None)
    if shape is None:
        raise TypeError(f"{name} is {type(array).__name__}, no array: it has no shape")
    return tuple(int(size) for size in shape)


def device_of(name: str, array: Array) -> str:
    """ "cpu", "cuda:N" or "hip:N", as Plan takes it."""
    if is_numpy(array):
        return "cpu"
    if not hasattr(array, "__dlpack_device__"):
        raise TypeError(f"{name} is {type(array).__name__}, no array: it has neither __dlpack__ nor __array_interface__")
    kind, index = array.__dlpack_device__()
    kind = int(kind)
    if kind in (1, 3, 11):  # host memory, pinned or not
        return "cpu"
    if kind in (2, 13):
        return f"cuda:{int(index)}"
    if kind == 10:  # ROCm
        return f"hip:{int(index)}"
    raise ValueError(f"{name} lies on a device of DLPack type {kind}; the block runs on CPUs, CUDA and ROCm devices")


def stream_of(array: Array, device: str) -> int:
    """The handle of the stream that the array's library works on now."""
    if device == "cpu":
        return 0
    if is_torch(array):
        return sys.modules["torch"].cuda.current_stream(array.device).cuda_stream
    if is_cupy(array):
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    return 0


def empty_like(array: Array, shape: Tuple[int, ...], dtype: str, keyword: str) -> Array:
    """An array of the given one's kind and device, "bf16" or "f32", not filled; TypeError names the keyword that takes a ready one."""
    if is_numpy(array):
        import numpy

        return numpy.empty(shape, _numpy_bf16() if dtype == "bf16" else numpy.float32)
    if is_torch(array):
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=torch.bfloat16 if dtype == "bf16" else torch.float32, device=array.device)
    if is_cupy(array):
        cupy = sys.modules["cupy"]
        return cupy.empty(shape, _numpy_bf16() if dtype == "bf16" else cupy.float32)
    raise TypeError(f"no array like {kind_of(array)} can be made here: pass one that is written to, {keyword}=")


def to_host(array: Array) -> Array:
    """Itself where it lies in host memory, a copy where it does not."""
    if is_torch(array):
        return array.detach().cpu()
    if is_cupy(array):
        return array.get()
    return array


def as_rows(array: Array, shape: Tuple[int, ...]) -> Array:
    """An operand that is read, with its leading axes as rows: copied where its strides do not allow that."""
    if len(shape) <= 2 or not hasattr(array, "reshape"):
        return array
    return array.reshape(-1, shape[-1])


def _numpy_bf16() -> Any:
    import ml_dtypes

    return ml_dtypes.bfloat16
