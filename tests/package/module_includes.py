"""Modules depend one way: no file of src/ includes a module that docs/design.md's table does not allow it.

usage: module_includes.py ROOT
"""

import re
import sys
from pathlib import Path

ROW = re.compile(r"^\| \[(\w+)\]\(\.\./src/\1\) \| .* \| ([^|]*) \|$", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include "([\w./]+)"', re.MULTILINE)
SOURCES = {".cpp", ".hpp", ".cu", ".cuh", ".hip"}
# Below the operator's calls; what is named here includes no more of ffn than that.
LAYERS = {"ffn/rank": {"ffn/rank"}, "ffn/tensor": {"ffn/rank", "ffn/tensor"}, "ffn/context": {"ffn/rank", "ffn/context"}}


def allowed(table):
    """Module: those that it may include, itself among them."""
    rows = dict(ROW.findall(table))
    words = {module: re.findall(r"\w+", re.sub(r"`[^`]*`", "", text)) for module, text in rows.items()}
    return {module: {module} | set(rows).intersection(words[module]) for module in rows}


def problems(root, modules):
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in SOURCES:
            continue
        name = path.relative_to(root / "src")
        if name.parts[0] not in modules:
            yield f"src/{name}: the table of docs/design.md has no module {name.parts[0]}"
            continue
        for include in INCLUDE.findall(path.read_text()):
            first, layer = include.split("/")[0], "/".join(include.split("/")[:2])
            mine = "/".join(name.parts[:2])
            if "/" not in include:
                yield f"src/{name} includes {include} without its module"
            elif first != "samebits" and first not in modules[name.parts[0]]:
                yield f"src/{name} includes {include}: {name.parts[0]} may include {', '.join(sorted(modules[name.parts[0]]))}"
            elif first == "ffn" and mine in LAYERS and layer not in LAYERS[mine]:
                yield f"src/{name} includes {include}: {mine} may include {', '.join(sorted(LAYERS[mine]))} of ffn"


def main():
    root = Path(sys.argv[1])
    modules = allowed((root / "docs" / "design.md").read_text())
    if not {"numerics", "engine", "ffn", "io"} <= set(modules):
        sys.exit(f"docs/design.md: the table of modules was not understood: {sorted(modules)}")
    found = list(problems(root, modules))
    print("\n".join(found) or f"{len(modules)} modules, each within what it may include")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
