"""One self-contained HTML page: figures as data, and the numbers behind them as tables."""

import base64
import html
from typing import Any, Dict, List, Sequence

from .words import machine_of, versions_of

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #111; background: #fff;
  margin: 0 auto; padding: 1rem; max-width: 46rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; border-top: 1px solid #bbb; padding-top: 1rem; }
img { width: 100%; height: auto; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ccc; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
dt { font-weight: bold; } dd { margin: 0 0 .4rem; overflow-wrap: anywhere; }
.verdict { font-weight: bold; border: 2px solid #111; padding: .4rem .8rem; display: inline-block; }
"""
TITLES = {
    "ratios": "Latency", "mismatches": "Exactness", "roofline": "Roofline", "errors": "Error against float64",
}  # fmt: skip


def page_of(report: Dict[str, Any], pictures: Dict[str, bytes]) -> str:
    contract = report["contract"]
    parts = [
        "<!doctype html>", '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>samebits {html.escape(report['command'])}: {html.escape(contract['name'])}</title><style>{STYLE}</style></head><body>",
        f"<h1>samebits {html.escape(report['command'])}: {html.escape(contract['name'])}</h1>",
        f'<p class="verdict">{"all held" if report.get("ok") else "something that must be equal is not"}</p>',
        _definitions(report),
    ]  # fmt: skip
    tables = {"ratios": _times, "mismatches": _mismatches, "errors": _errors}
    for name, picture in pictures.items():
        data = base64.b64encode(picture).decode()
        parts.append(f'<h2>{TITLES[name]}</h2><img alt="{TITLES[name]}: the numbers are in the table" src="data:image/png;base64,{data}">')
        if name in tables:
            parts.append(tables[name](report))
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def _definitions(report: Dict[str, Any]) -> str:
    contract, shape, environment = report["contract"], report["shape"], report.get("environment", {})
    tokens = f", {shape['tokens']} tokens" if "tokens" in shape else ""
    told = {
        "Contract": f"{contract['canonical']} ({contract['fingerprint']})",
        "Shape": f"H {shape['hidden']}, I {shape['intermediate']}{tokens} ({shape['source']})",
        "Machine": machine_of(report),
        "System": environment.get("os", ""),
        "Versions": versions_of(report),
        "Command": environment.get("command_line", ""),
        "Time": environment.get("time", ""),
    }
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{html.escape(str(text))}</dd>" for name, text in told.items() if text) + "</dl>"


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f'<div class="scroll"><table>{line(header, "th")}{"".join(line(row, "td") for row in rows)}</table></div>'


def _times(report: Dict[str, Any]) -> str:
    rows = [
        (f"{row['direction']}, {row.get('mode', '')}, {row['layout']}", row["tokens"],
         *(f"{row['ours_us'][key]:.1f}" for key in ("median", "p95", "min", "max")),
         f"{row['baseline_us']['median']:.1f}" if row.get("baseline_us") else "", f"{row['ratio']:.2f}" if row.get("ratio") else "")
        for row in report["rows"]
    ]  # fmt: skip
    return _table(["microseconds", "tokens", "median", "p95", "min", "max", "baseline", "ratio"], rows)


def _mismatches(report: Dict[str, Any]) -> str:
    rows: List[Sequence[Any]] = []
    for row in report["layouts"]:
        if row["status"] in ("refused", "skipped"):
            rows.append((row["name"], row["status"], row["reason"]))
        else:
            rows.append((row["name"], row["status"], *(f"{row['mismatch'][name]} of {row['elements'][name]}" for name in row["mismatch"])))
    names = next((list(row["mismatch"]) for row in report["layouts"] if "mismatch" in row and row["mismatch"]), [])
    power = report.get("power") or {}
    told = (
        "A control, one tree with another split, would have changed: " + ", ".join(f"{name} {count}" for name, count in power.items()) + "."
    )
    return _table(["layout", "status", *names], rows) + (f"<p>{html.escape(told)}</p>" if power else "")


def _errors(report: Dict[str, Any]) -> str:
    table = report.get("accuracy_by") or {report["contract"]["name"]: report["accuracy"]}
    rows = [
        (name, tensor, *(f"{error[key]:.3e}" for key in ("rel_l2", "max_abs", "mean_abs")))
        for name, tensors in table.items()
        for tensor, error in tensors.items()
    ]
    return _table(["", "tensor", "relative L2", "largest", "mean absolute"], rows)
