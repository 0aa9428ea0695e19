"""The four figures of a report. Each is None where the report lacks what it shows."""

import math
import textwrap
from typing import Any, Dict, List, Optional, Tuple

from .style import HATCHES, MARKS, TONES, finish, new_figure
from .words import caption_of

Report = Dict[str, Any]


def ratio_bars(report: Report) -> Optional[Any]:
    """Time of the block over the baseline's, by tokens: below 1 is faster."""
    rows = [row for row in report.get("rows", []) if row["layout"] == "tp1" and row.get("ratio")]
    if not rows:
        return None
    tokens = sorted({row["tokens"] for row in rows})
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    figure, axes = new_figure(1.6 + 2.4 * len(directions), len(directions))
    for panel, direction in zip(axes if len(directions) > 1 else [axes], directions):
        series = _series([row for row in rows if row["direction"] == direction])
        width = 0.8 / len(series)
        for index, (label, points) in enumerate(series):
            at = [tokens.index(row["tokens"]) + (index - (len(series) - 1) / 2) * width for row in points]
            ratios = [row["ratio"] for row in points]
            bars = panel.bar(at, ratios, 0.92 * width, label=label, color=TONES[index], hatch=HATCHES[index], edgecolor="white")
            panel.bar_label(bars, fmt="%.2f", fontsize=8, padding=1)
        panel.axhline(1, color="black", linewidth=1, linestyle="--", zorder=0.5)
        panel.set_xticks(range(len(tokens)), [str(count) for count in tokens])
        panel.set_ylabel("time / baseline's")
        panel.margins(y=0.12)
        panel.legend(fontsize=9, ncols=2, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
    panel.set_xlabel("tokens of a call")
    baseline = str(rows[0].get("baseline", "the baseline")).split(" (")[0]
    return finish(figure, f"Time over {baseline}'s (below 1: faster)", caption_of(report))


def mismatch_map(report: Report) -> Optional[Any]:
    """Elements that differ from one rank, by layout and tensor."""
    layouts = report.get("layouts", [])
    if not layouts:
        return None
    columns = ["output", "training_output", "d_hidden", "d_gate", "d_up", "d_down"]
    figure, axes = new_figure(1.9 + 0.34 * len(layouts))
    shares = [[_share(row, column) for column in columns] for row in layouts]
    # White: equal. Grey: not run. Dark from the first element that differs on, by the logarithm of the share.
    axes.imshow([[_tone(share) for share in row] for row in shares], cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for y, row in enumerate(layouts):
        for x, column in enumerate(columns):
            share = shares[y][x]
            text = "refused" if share is None else str(row["mismatch"][column])
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color="white" if share else "black")
    axes.set_xticks(range(len(columns)), [column.replace("_", "\n") for column in columns], fontsize=9)
    axes.set_yticks(range(len(layouts)), [row["name"] for row in layouts], fontsize=9)
    axes.set_xticks([x - 0.5 for x in range(1, len(columns))], minor=True)
    axes.set_yticks([y - 0.5 for y in range(1, len(layouts))], minor=True)
    axes.grid(which="minor", color="#999999", linewidth=0.6)
    axes.tick_params(which="minor", length=0)
    for spine in axes.spines.values():
        spine.set_visible(True)
    ran = [row for row in layouts if row["status"] != "refused"]
    wrong = sum(sum(row["mismatch"].values()) for row in ran)
    title = "Elements that differ from one rank: " + ("none, on any layout" if wrong == 0 else str(wrong))
    return finish(figure, title, caption_of(report))


def roofline(report: Report) -> Optional[Any]:
    """FLOP a second against FLOP a byte, below what the machine can do."""
    ceiling = report.get("ceiling") or {}
    rows = [row for row in report.get("rows", []) if row["layout"] == "tp1" and row.get("flops_per_second")]
    if not rows or not ceiling.get("flops_per_second"):
        return None
    most, bandwidth = max(ceiling["flops_per_second"].values()), ceiling["read_bytes_per_second"]
    figure, axes = new_figure(4.4)
    rows = [{**row, "flops_per_byte": _flops_per_byte(report["shape"], row["tokens"])} for row in rows]
    low, high = min(row["flops_per_byte"] for row in rows) / 2, max(row["flops_per_byte"] for row in rows) * 2
    points = [low * (high / low) ** (step / 200) for step in range(201)]
    axes.plot(
        points, [min(most, bandwidth * point) for point in points], color="black", linewidth=1.5, label="what the machine can do (measured)"
    )
    for index, (label, series) in enumerate(_series(rows)):
        intensity, speed = [row["flops_per_byte"] for row in series], [row["flops_per_second"] for row in series]
        axes.plot(intensity, speed, marker=MARKS[index], color=TONES[index], linestyle=":", markersize=6, label=label)
        for row in series if index == 0 else []:
            at = (row["flops_per_byte"], row["flops_per_second"])
            axes.annotate(str(row["tokens"]), at, textcoords="offset points", xytext=(5, -11), fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP a byte (weights read once, activations written and read)")
    axes.set_ylabel("FLOP a second")
    axes.legend(fontsize=8, frameon=False)
    return finish(figure, "Under the roofline (numbers: tokens of a call)", caption_of(report))


def error_bars(report: Report) -> Optional[Any]:
    """Relative L2 error against float64, by contract and format."""
    table = report.get("accuracy_by") or ({report["contract"]["name"]: report["accuracy"]} if report.get("accuracy") else {})
    if not table:
        return None
    tensors = ["output", "d_hidden", "d_gate"]
    names = list(table)
    figure, axes = new_figure(1.9 + 0.5 * len(names))
    for index, tensor in enumerate(tensors):
        values = [table[name].get(tensor, {}).get("rel_l2") or float("nan") for name in names]
        at = [y + (index - 1) * 0.26 for y in range(len(names))]
        axes.barh(at, values, 0.24, label=tensor, color=TONES[index], hatch=HATCHES[index], edgecolor="white")
        for y, value in zip(at, values):
            axes.text(value, y, f" {value:.1e}", va="center", fontsize=6.5)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), [_wrapped(name) for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlabel("relative L2 error against float64")
    axes.legend(fontsize=8, frameon=False)
    return finish(figure, "Error by contract and by format", caption_of(report))


FIGURES = {"ratios": ratio_bars, "mismatches": mismatch_map, "roofline": roofline, "errors": error_bars}


def _series(rows: List[Dict[str, Any]]) -> List[Tuple[str, List[Dict[str, Any]]]]:
    """By direction and mode, each ascending in tokens."""
    keys = list(dict.fromkeys((row["direction"], row.get("mode", "")) for row in rows))
    words = {"forward": "forward", "both": "forward + backward"}
    return [
        (f"{words.get(direction, direction)}{', ' + mode if mode else ''}",
         sorted((row for row in rows if (row["direction"], row.get("mode", "")) == (direction, mode)), key=lambda row: row["tokens"]))
        for direction, mode in keys
    ]  # fmt: skip


def _flops_per_byte(shape: Dict[str, Any], tokens: int) -> float:
    """Of a forward; forward and backward do three times as much of both. Weights are read once, activations written and read."""
    hidden, intermediate = shape["hidden"], shape["intermediate"]
    return 6.0 * tokens * hidden * intermediate / (6.0 * hidden * intermediate + 2.0 * tokens * (2 * hidden + 4 * intermediate))


def _share(row: Dict[str, Any], column: str) -> Optional[float]:
    if row["status"] in ("refused", "skipped"):
        return None
    return row["mismatch"][column] / max(1, row["elements"][column])


def _tone(share: Optional[float]) -> float:
    return 0.15 if share is None else 0.0 if share == 0 else min(1.0, max(0.75, 1.05 + 0.05 * math.log10(share)))


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(name, 22))
