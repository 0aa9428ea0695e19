"""The block on one rank: forward and backward on arrays of any kind."""

from typing import NamedTuple, Optional, Tuple, Union

from ._core import Contract
from .arrays import Array, OptionalArray, as_rows, device_of, empty_like, shape_of, stream_of
from .plans import cached_plan


class Gradients(NamedTuple):
    """What `ffn_backward` gives."""

    dx: Array  # as x
    d_gate: Array  # [I, H]
    d_up: Array  # [I, H]
    d_down: Array  # [H, I]


def ffn(
    x: Array,
    w_gate: Array,
    w_up: Array,
    w_down: Array,
    contract: Union[Contract, str] = "bf16-tree-v1",
    out: OptionalArray = None,
    stream: Optional[int] = None,
) -> Array:
    """y = w_down(silu(w_gate(x)) * w_up(x)), with the bits of the contract: those of a row depend on that row and the weights alone.

    x: [..., H], bfloat16. w_gate, w_up: [I, H], w_down: [H, I], as torch.nn.Linear holds them, of any strides. All lie on one device:
    a CPU or a CUDA device. Returns y, like x in shape, kind and device, or `out`, which is written.

    stream: the handle of a CUDA stream; None: the one that the library of x works on now (PyTorch, CuPy), else the default stream.
    Nothing waits for the device. Nothing is recorded for autograd.

    TypeError for another dtype or no array; ValueError for other shapes, devices, a read-only `out` or one that shares memory with an
    operand; Refused for a contract that the device cannot run; EnvironmentProblem where it cannot be used.
    """
    shape, tokens, hidden, intermediate = _sizes("x", x, w_gate)
    device, stream = _place(x, stream)
    y = _output(out, "out", x, shape, "bf16")
    cached = cached_plan(contract, hidden, intermediate, tokens, device, stream, backward=False)
    with cached.lock:
        cached.plan.forward(as_rows(x, shape), y, w_gate, w_up, w_down, stream=stream)
    return y


def ffn_backward(
    x: Array,
    dy: Array,
    w_gate: Array,
    w_up: Array,
    w_down: Array,
    contract: Union[Contract, str] = "bf16-tree-v1",
    dx: OptionalArray = None,
    d_gate: OptionalArray = None,
    d_up: OptionalArray = None,
    d_down: OptionalArray = None,
    gradient_dtype: str = "bf16",
    stream: Optional[int] = None,
) -> Gradients:
    """The gradients of `ffn` for the gradient dy of its result, of the same shape as x. The forward is computed anew.

    dx, d_gate, d_up, d_down: arrays that are written, made where they are None: dx [..., H] bfloat16; d_gate, d_up [I, H] and d_down
    [H, I], of gradient_dtype, "bf16" or "f32", all three alike. Weight gradients are summed over all tokens in the contract's tree.
    Everything else, and the errors, as in `ffn`.
    """
    if gradient_dtype not in ("bf16", "f32"):
        raise ValueError(f"gradient_dtype is {gradient_dtype!r}; it is 'bf16' or 'f32'")
    shape, tokens, hidden, intermediate = _sizes("x", x, w_gate)
    if shape_of("dy", dy) != shape:
        raise ValueError(f"dy is {list(shape_of('dy', dy))}, x is {list(shape)}: they are of one shape")
    device, stream = _place(x, stream)
    out = Gradients(
        _output(dx, "dx", x, shape, "bf16"),
        _output(d_gate, "d_gate", x, (intermediate, hidden), gradient_dtype),
        _output(d_up, "d_up", x, (intermediate, hidden), gradient_dtype),
        _output(d_down, "d_down", x, (hidden, intermediate), gradient_dtype),
    )
    cached = cached_plan(contract, hidden, intermediate, tokens, device, stream, backward=True)
    weights = (w_gate, w_up, w_down)
    rows = as_rows(x, shape)
    with cached.lock:
        cached.plan.forward(rows, None, *weights, stream=stream)
        cached.plan.backward(
            rows, as_rows(dy, shape), *weights, dx=out.dx, d_gate=out.d_gate, d_up=out.d_up, d_down=out.d_down, stream=stream
        )
    return out


def _sizes(name: str, x: Array, w_gate: Array) -> Tuple[Tuple[int, ...], int, int, int]:
    """Shape of x, its tokens, H and I."""
    shape, gate = shape_of(name, x), shape_of("w_gate", w_gate)
    if not shape:
        raise ValueError(f"{name} is a scalar; its last axis is H")
    if len(gate) != 2:
        raise ValueError(f"w_gate is {list(gate)}; it is [I, H]")
    tokens = 1
    for size in shape[:-1]:
        tokens *= size
    if gate[1] != shape[-1]:
        raise ValueError(f"{name} is {list(shape)} and w_gate {list(gate)}: the last axes of both are H")
    return shape, tokens, gate[1], gate[0]


def _place(x: Array, stream: Optional[int]) -> Tuple[str, int]:
    device = device_of("x", x)
    return device, stream_of(x, device) if stream is None else int(stream)


def _output(given: OptionalArray, keyword: str, like: Array, shape: Tuple[int, ...], dtype: str) -> Array:
    if given is None:
        return empty_like(like, shape, dtype, keyword)
    if shape_of(keyword, given) != shape:
        raise ValueError(f"{keyword} is {list(shape_of(keyword, given))}; it is {list(shape)} here")
    return given
