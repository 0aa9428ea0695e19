"""The block on a rank of a layout, as operators: collective, every rank of the layout calls them in the same order.

x, dy, y and dx are this rank's tokens; the weights are this rank's shard, and so are their gradients, summed over the tokens of all ranks.
The second cut of the weights is used where it is given, and exchanged where it is needed and not given.
"""

import math
from typing import Any, Dict, Optional, Tuple

import torch

from .operators import Gradients, Saving, described_results, described_saved
from .plans import current_stream
from .registration import Library, register_block
from .sharded import SecondCut, ShardedBlock, sharded_block
from .tensors import Described, described, rows_of

Tensor = torch.Tensor
Weights = Tuple[Tensor, Tensor, Tensor]  # gate, up, down
_library = Library("samebits", "FRAGMENT")
_WEIGHTS = "Tensor w_gate, Tensor w_up, Tensor w_down, Tensor? gate_columns, Tensor? up_columns, Tensor? down_rows"
_library.define(f"sharded_ffn(Tensor x, {_WEIGHTS}, str layout) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_library.define(
    f"sharded_ffn_saving(Tensor x, {_WEIGHTS}, str layout) -> (Tensor y, Tensor gate, Tensor up, Tensor act)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    f"sharded_ffn_backward(Tensor x, Tensor dy, {_WEIGHTS}, Tensor? gate, Tensor? up, Tensor? act, str layout, bool wants_dx, "
    "bool wants_weights) -> (Tensor dx, Tensor d_gate, Tensor d_up, Tensor d_down)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _empty(tensor: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device=tensor.device)


def second_cut_for(block: ShardedBlock, weights: Weights, given: SecondCut, backward: bool) -> SecondCut:
    """What a plan reads of the second cut: as given, the rest exchanged."""
    if not block.by_rows:
        return SecondCut()
    gate, up, down = weights
    columns = backward and given.gate_columns is None
    made = block.second_cut(gate if columns else None, up if columns else None, None if backward or given.down_rows is not None else down)
    return SecondCut(*(a if a is not None else b for a, b in zip(given, made)))


def _described_cut(cut: SecondCut) -> Dict[str, Any]:
    return {name: described(name, tensor) for name, tensor in cut._asdict().items() if tensor is not None}


def _described_weights(weights: Weights) -> Tuple[Described, Described, Described]:
    gate, up, down = weights
    return described("gate", gate), described("up", up), described("down", down)


def _forward(block: ShardedBlock, x: Tensor, weights: Weights, cut: SecondCut, saves: bool) -> Saving:
    held = block.order.of(x.shape, saves and any(weight.requires_grad for weight in weights))
    rows, y = rows_of(x), _empty(x, *x.shape)
    saved = _saved(block, x, held.mine if saves else 0)
    cut = second_cut_for(block, weights, cut, False)
    with block.lock:
        block.plan(saves, held).forward(
            described("x", rows), described("y", rows_of(y)), *_described_weights(weights), **_described_cut(cut),
            shards=held.shards, saved=described_saved(*saved) if saves else None, stream=current_stream(x.get_device()),
        )  # fmt: skip
    return (y, *saved)


def _saved(block: ShardedBlock, x: Tensor, tokens: int) -> Tuple[Tensor, Tensor, Tensor]:
    begin, end = block.shard.intermediate
    return _empty(x, tokens, end - begin), _empty(x, tokens, end - begin), _empty(x, tokens, end - begin)


def _results(x: Tensor, weights: Weights, wants_dx: bool, wants_weights: bool) -> Gradients:
    """Not filled; what is not wanted has no elements."""
    wanted = ((x, wants_dx), *((weight, wants_weights) for weight in weights))
    dx, d_gate, d_up, d_down = (_empty(tensor, *(tensor.shape if wants else (0,))) for tensor, wants in wanted)
    return dx, d_gate, d_up, d_down


def _sharded_ffn(x, w_gate, w_up, w_down, gate_columns, up_columns, down_rows, layout):  # type: ignore[no-untyped-def]
    weights, cut = (w_gate, w_up, w_down), SecondCut(gate_columns, up_columns, down_rows)
    return _forward(sharded_block(layout), x, weights, cut, False)[0]


def _sharded_ffn_saving(x, w_gate, w_up, w_down, gate_columns, up_columns, down_rows, layout):  # type: ignore[no-untyped-def]
    weights, cut = (w_gate, w_up, w_down), SecondCut(gate_columns, up_columns, down_rows)
    return _forward(sharded_block(layout), x, weights, cut, True)


def _sharded_ffn_backward(  # type: ignore[no-untyped-def]
    x, dy, w_gate, w_up, w_down, gate_columns, up_columns, down_rows, gate, up, act, layout, wants_dx, wants_weights
):
    block, weights = sharded_block(layout), (w_gate, w_up, w_down)
    out = _results(x, weights, wants_dx, wants_weights)
    if not (wants_dx or wants_weights):
        return out
    held = block.order.of(x.shape, wants_weights)
    rows = rows_of(x)
    given = SecondCut(gate_columns, up_columns, down_rows)
    cut = second_cut_for(block, weights, given, True)
    stream = current_stream(x.get_device())
    common = {"shards": held.shards, "stream": stream}
    operands = described("x", rows), described("dy", rows_of(dy)), *_described_weights(weights)
    with block.lock:
        plan = block.plan(True, held)
        saved = _saved(block, x, held.mine) if gate is None else (gate, up, act)
        common["saved"] = described_saved(*saved)
        if gate is None:
            plan.forward(operands[0], None, *operands[2:], **common)
        plan.backward(*operands, **_described_cut(cut), **described_results(out, wants_dx, wants_weights), **common)
    return out


def _fake_ffn(x, w_gate, w_up, w_down, gate_columns, up_columns, down_rows, layout):  # type: ignore[no-untyped-def]
    return _empty(x, *x.shape)


def _fake_ffn_saving(x, w_gate, w_up, w_down, gate_columns, up_columns, down_rows, layout):  # type: ignore[no-untyped-def]
    order = sharded_block(layout).order
    tokens = order.given.mine if order.given is not None else math.prod(x.shape[:-1]) * order.slices
    return (_empty(x, *x.shape), *(_empty(x, tokens, w_gate.shape[0]) for _ in range(3)))


def _fake_ffn_backward(  # type: ignore[no-untyped-def]
    x, dy, w_gate, w_up, w_down, gate_columns, up_columns, down_rows, gate, up, act, layout, wants_dx, wants_weights
):
    return _results(x, (w_gate, w_up, w_down), wants_dx, wants_weights)


def _backward(ctx: Any, dy: Optional[Tensor], *others: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
    x, *weights = ctx.saved_tensors  # read once: a checkpoint gives them once
    weights, saved = weights[:6], weights[6:]
    wanted = ctx.needs_input_grad[:4]
    if dy is None:
        return (None,) * 8
    made = torch.ops.samebits.sharded_ffn_backward(
        x, dy, *weights, *(saved or (None, None, None)), ctx.how, wanted[0], any(wanted[1:])
    )
    return (*(gradient if want else None for gradient, want in zip(made, wanted)), None, None, None, None)


register_block(
    _library,
    "sharded_ffn",
    ((_sharded_ffn, _fake_ffn), (_sharded_ffn_saving, _fake_ffn_saving), (_sharded_ffn_backward, _fake_ffn_backward)),
    _backward,
)
