"""A rank's part of whole weights."""

from typing import Dict

from ._core import Plan
from .arrays import Array, shape_of


def slice_weights(plan: Plan, gate: Array, up: Array, down: Array) -> Dict[str, Array]:
    """Views of the rank's shard into whole weights, by the keywords of `Plan.forward` and `Plan.backward`.

    gate, up: [I, H]; down: [H, I]; arrays that can be sliced. ValueError for other shapes.
    """
    rows, cols = (plan.intermediate, plan.hidden)
    for name, array, shape in (("gate", gate, (rows, cols)), ("up", up, (rows, cols)), ("down", down, (cols, rows))):
        if shape_of(name, array) != shape:
            raise ValueError(f"{name} is {list(shape_of(name, array))}, the plan expects {list(shape)}")
    begin, end = plan.shard.intermediate
    parts = {"gate": gate[begin:end], "up": up[begin:end], "down": down[:, begin:end]}
    if plan.down == "rows":
        begin, end = plan.shard.hidden
        parts.update(gate_columns=gate[:, begin:end], up_columns=up[:, begin:end], down_rows=down[begin:end])
    return parts
