"""How the scripts here tell what they found: a table for people, a file for programs. Standard library alone."""
import json
import sys


def print_table(header, rows):
    """The first column flush left, the others flush right."""
    lines = [header, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip(), flush=True)


def write_report(path, report):
    if not path:
        return
    text = json.dumps(report, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
