"""Experiment 1: does every layout give the bits of one rank?"""

import time
from typing import Any, Dict, List

import torch

from .. import Contract, Refused, compare, digest
from .layouts import Layout, layout_of, results_on, slices
from .operands import Operands

NAMES = {"y": "training_output", "dx": "d_hidden", "d_gate": "d_gate", "d_up": "d_up", "d_down": "d_down"}


def exactness(contract: str, layouts: List[str], operands: Operands) -> Dict[str, Any]:
    """The keys `layouts`, `invariance`, `power` and `ok` of a report."""
    alone = results_on(contract, Layout(1, 1, False), operands, True)[0]
    inference = results_on(contract, Layout(1, 1, False), operands, False)[0]
    whole = {"output": inference.made["y"], **{NAMES[name]: tensor for name, tensor in alone.made.items()}}
    rows = [_row("tp1", Layout(1, 1, False), contract, operands, whole)]
    rows += [_row(name, layout_of(name), contract, operands, whole) for name in layouts]

    last = len(operands.x) - 1
    row = operands._replace(x=operands.x[last:], dy=operands.dy[last:])
    single = results_on(contract, Layout(1, 1, False), row, False)[0].made["y"]
    repeated = results_on(contract, Layout(1, 1, False), operands, True)[0]
    invariance = {
        "repeat": sum(_differing(tensor, alone.made[name]) for name, tensor in repeated.made.items()),
        "row_vs_batch": _differing(single, whole["output"][last:]),
    }
    power = _power(contract, operands, whole)
    ok = not any(invariance.values()) and all(row["status"] in ("ok", "refused") for row in rows)
    return {"layouts": rows, "invariance": invariance, "power": power, "ok": ok}


def _row(name: str, layout: Layout, contract: str, operands: Operands, whole: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    row: Dict[str, Any] = {"name": name, **dict(zip(("tp", "cp", "sp"), layout)), "status": "ok", "reason": None}
    begin = time.perf_counter()
    try:
        training = results_on(contract, layout, operands, True)
        inference = results_on(contract, layout, operands, False)
    except Refused as refusal:
        return {**row, "status": "refused", "reason": str(refusal)}
    row["seconds"] = time.perf_counter() - begin
    mismatch = {name: 0 for name in whole}
    elements = {name: 0 for name in whole}
    together = {name: torch.zeros_like(tensor) for name, tensor in whole.items()}
    for ranks, names in ((training, NAMES), (inference, {"y": "output"})):
        for rank in ranks:
            places = slices(rank)
            for key, column in names.items():
                made, expected = rank.made[key], whole[column][places[key]]
                mismatch[column] += _differing(made, expected)
                elements[column] += made.numel()
                together[column][places[key]] = made
    row.update(mismatch=mismatch, elements=elements, digest={name: digest(tensor) for name, tensor in together.items()})
    if any(mismatch.values()):
        row["status"] = "mismatch"
    return row


def _power(contract: str, operands: Operands, whole: Dict[str, torch.Tensor]) -> Dict[str, int]:
    """How many elements another tree of the same arithmetic changes: a column of zeros proves nothing for it."""
    if ";" in contract:  # a canonical string takes no further fields
        return {}
    text = f"{contract},H=halve:1,I=halve:1,T=halve:1"
    if Contract(text) == Contract(contract):
        return {}
    other = results_on(text, Layout(1, 1, False), operands, True)[0]
    power = {"output": _differing(other.made["y"], whole["output"])}
    power.update((column, _differing(other.made[name], whole[column])) for name, column in NAMES.items())
    return power


def _differing(made: torch.Tensor, expected: torch.Tensor) -> int:
    return compare(made, expected.contiguous()).differing
