"""python -m samebits.report results.json: a page and figures of a report of `samebits verify`, `samebits bench` or samebits.bench."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, Sequence


def read(path: Path) -> Dict[str, Any]:
    """ValueError where it is no report."""
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise ValueError(f"{path}: {problem}") from None
    schema = report.get("schema") if isinstance(report, dict) else None
    if schema != "samebits.report/1":
        raise ValueError(f"{path}: its schema is {schema!r}; reports have samebits.report/1")
    missing = [key for key in ("command", "contract", "shape") if key not in report]
    if missing:
        raise ValueError(f"{path}: a report has {', '.join(missing)}; this one does not")
    return report


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m samebits.report", description=__doc__)
    parser.add_argument("report", type=Path, help="a JSON report of schema samebits.report/1")
    parser.add_argument("--out", type=Path, help="folder for report.html and the PNG files (beside the report)")
    args = parser.parse_args(arguments)
    try:
        report = read(args.report)
    except ValueError as problem:
        print(f"samebits.report: {problem}", file=sys.stderr)
        return 2
    try:
        from .figures import FIGURES
    except ImportError as missing:
        print(f"samebits.report: {missing}: install matplotlib, or samebits with [report]", file=sys.stderr)
        return 3
    from .page import page_of

    folder = args.out or args.report.parent / args.report.stem
    folder.mkdir(parents=True, exist_ok=True)
    pictures: Dict[str, bytes] = {}
    for name, draw in FIGURES.items():
        figure = draw(report)
        if figure is not None:
            path = folder / f"{name}.png"
            figure.savefig(path)
            pictures[name] = path.read_bytes()
            print(path)
    page = folder / "report.html"
    page.write_text(page_of(report, pictures))
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
