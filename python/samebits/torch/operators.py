"""The block as PyTorch operators: schemas, kernels, fake implementations and autograd.

samebits::ffn          y; its backward computes the forward anew
samebits::ffn_saving   y and what its backward reads: G, U and A, [tokens, I] each
samebits::ffn_backward the gradients of either
"""

import math
from typing import Any, Dict, Optional, Tuple

import torch

from .plans import current_stream, plan_for
from .registration import Library, register_block
from .tensors import Described, described, rows_of

Tensor = torch.Tensor
Saving = Tuple[Tensor, Tensor, Tensor, Tensor]  # y, G, U, A
Gradients = Tuple[Tensor, Tensor, Tensor, Tensor]  # dx, d_gate, d_up, d_down
_library = Library("samebits", "DEF")
_WEIGHTS = "Tensor w_gate, Tensor w_up, Tensor w_down"
_library.define(f"ffn(Tensor x, {_WEIGHTS}, str contract) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_library.define(
    f"ffn_saving(Tensor x, {_WEIGHTS}, str contract) -> (Tensor y, Tensor gate, Tensor up, Tensor act)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    f"ffn_backward(Tensor x, Tensor dy, {_WEIGHTS}, Tensor? gate, Tensor? up, Tensor? act, str contract, bool wants_dx, bool wants_weights)"
    " -> (Tensor dx, Tensor d_gate, Tensor d_up, Tensor d_down)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _sizes(x: Tensor, w_gate: Tensor) -> Tuple[int, int]:
    """H and I."""
    if w_gate.dim() != 2:
        raise ValueError(f"w_gate is {list(w_gate.shape)}; it is [I, H]")
    intermediate, hidden = w_gate.shape
    if x.dim() < 1 or x.shape[-1] != hidden:
        raise ValueError(f"x is {list(x.shape)} and w_gate {list(w_gate.shape)}: the last axes of both are H")
    return hidden, intermediate


def _empty(tensor: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device=tensor.device)


def _packed_like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _call_of(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor) -> Tuple[Described, ...]:
    """x, as rows, and the weights. Sizes are read once: what a call costs the host counts where tokens are few."""
    if w_gate.dim() != 2 or x.dim() < 1:
        _sizes(x, w_gate)
    rows, gate = described("x", rows_of(x)), described("gate", w_gate)
    if rows[2] != gate[2]:
        _sizes(x, w_gate)
    return rows, gate, described("up", w_up), described("down", w_down)


def _output_of(y: Tensor, x: Described) -> Described:
    """y is packed, and else as x."""
    return (y.data_ptr(), x[1], x[2], x[2], 1, x[5], x[6], x[7])


def _saved(x: Tensor, intermediate: int) -> Tuple[Tensor, Tensor, Tensor]:
    """G, U and A, not filled: [tokens, I]."""
    tokens = math.prod(x.shape[:-1])
    return _empty(x, tokens, intermediate), _empty(x, tokens, intermediate), _empty(x, tokens, intermediate)


def _gradients(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, wants_dx: bool, wants_weights: bool) -> Gradients:
    """Not filled; what is not wanted has no elements."""

    def like(tensor: Tensor, wanted: bool) -> Tensor:
        return _empty(tensor, *(tensor.shape if wanted else (0,)))

    return like(x, wants_dx), like(w_gate, wants_weights), like(w_up, wants_weights), like(w_down, wants_weights)


def _ffn(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, contract: str) -> Tensor:
    rows, gate, up, down = _call_of(x, w_gate, w_up, w_down)
    y, device = _packed_like(x), x.get_device()
    stream = current_stream(device)
    plan = plan_for(contract, gate[2], gate[1], device, stream, False, rows[1]).plan
    plan.forward(rows, _output_of(y, rows), gate, up, down, stream=stream)
    return y


def _ffn_saving(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, contract: str) -> Saving:
    rows, gate, up, down = _call_of(x, w_gate, w_up, w_down)
    y, device = _packed_like(x), x.get_device()
    saved = _saved(x, gate[1])
    stream = current_stream(device)
    plan = plan_for(contract, gate[2], gate[1], device, stream, True, rows[1]).plan
    plan.forward(rows, _output_of(y, rows), gate, up, down, saved=described_saved(*saved), stream=stream)
    return (y, *saved)


def _ffn_backward(
    x: Tensor, dy: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, gate: Optional[Tensor], up: Optional[Tensor],
    act: Optional[Tensor], contract: str, wants_dx: bool, wants_weights: bool,
) -> Gradients:  # fmt: skip
    rows, *weights = _call_of(x, w_gate, w_up, w_down)
    intermediate, hidden = weights[0][1:3]
    out = _gradients(x, w_gate, w_up, w_down, wants_dx, wants_weights)
    device = x.get_device()
    stream = current_stream(device)
    results = described_results(out, wants_dx, wants_weights)
    plan = plan_for(contract, hidden, intermediate, device, stream, True, rows[1]).plan
    anew = gate is None or up is None or act is None
    saved = _saved(x, intermediate) if anew else (gate, up, act)
    if anew:
        plan.forward(rows, None, *weights, saved=described_saved(*saved), stream=stream)
    plan.backward(rows, described("dy", rows_of(dy)), *weights, **results, saved=described_saved(*saved), stream=stream)
    return out


def described_saved(gate: Tensor, up: Tensor, act: Tensor) -> Tuple[Described, Described, Described]:
    return described("gate", gate), described("up", up), described("act", act)


def described_results(made: Gradients, wants_dx: bool, wants_weights: bool) -> Dict[str, Any]:
    """By the keywords of Plan.backward; without those that are not wanted."""
    dx, d_gate, d_up, d_down = made
    results: Dict[str, Any] = {}
    if wants_dx:
        results["dx"] = described("dx", rows_of(dx))
    if wants_weights:
        results.update(d_gate=described("d_gate", d_gate), d_up=described("d_up", d_up), d_down=described("d_down", d_down))
    return results


def _fake_ffn(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, contract: str) -> Tensor:
    _sizes(x, w_gate)
    return _empty(x, *x.shape)


def _fake_ffn_saving(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, contract: str) -> Saving:
    _, intermediate = _sizes(x, w_gate)
    return (_empty(x, *x.shape), *_saved(x, intermediate))


def _fake_ffn_backward(
    x: Tensor, dy: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, gate: Optional[Tensor], up: Optional[Tensor],
    act: Optional[Tensor], contract: str, wants_dx: bool, wants_weights: bool,
) -> Gradients:  # fmt: skip
    return _gradients(x, w_gate, w_up, w_down, wants_dx, wants_weights)


def _backward(ctx: Any, dy: Optional[Tensor], *others: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
    x, w_gate, w_up, w_down, *saved = ctx.saved_tensors
    wanted = ctx.needs_input_grad[:4]
    if dy is None:
        return (None,) * 5
    made = torch.ops.samebits.ffn_backward(
        x, dy, w_gate, w_up, w_down, *(saved or (None, None, None)), ctx.how, wanted[0], any(wanted[1:])
    )
    return (*(gradient if want else None for gradient, want in zip(made, wanted)), None)


register_block(
    _library, "ffn", ((_ffn, _fake_ffn), (_ffn_saving, _fake_ffn_saving), (_ffn_backward, _fake_ffn_backward)), _backward
)
# Found once: a call by name looks among overloads.
ffn_operator = torch.ops.samebits.ffn.default
ffn_saving_operator = torch.ops.samebits.ffn_saving.default
