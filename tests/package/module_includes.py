"""Includes go one way: no file of src/, tools/ or python/src/ includes whom the tables of docs/design.md do not allow it.

usage: module_includes.py ROOT
"""

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include "([\w./]+)"', re.MULTILINE)
SOURCES = {".cpp", ".hpp", ".cu", ".cuh", ".hip"}
# Below the operator's calls; what is named here includes no more of ffn than that.
LAYERS = {"ffn/rank": {"ffn/rank"}, "ffn/tensor": {"ffn/rank", "ffn/tensor"}, "ffn/context": {"ffn/rank", "ffn/context"}}


def allowed(page, tree):
    """Folder of the tree: those that it may include, itself among them. By the rows that link to it, in their order."""
    rows = {}
    for folder, words in re.findall(rf"^\| \[(\w+)\]\(\.\./{tree}/\1\) \| .* \| ([^|]*) \|$", page, re.MULTILINE):
        rows[folder] = words
    named = {folder: set(re.findall(r"\w+", re.sub(r"`[^`]*`", "", words))) for folder, words in rows.items()}
    order = list(rows)
    return {
        folder: {folder} | (set(order[: order.index(folder)]) if words == "all of the above" else set(order) & named[folder])
        for folder, words in rows.items()
    }


def includes(folder):
    """(file, what it includes of ours)"""
    for path in sorted(folder.rglob("*")):
        if path.suffix in SOURCES:
            for include in INCLUDE.findall(path.read_text()):
                yield path.relative_to(folder), include


def of_src(root, modules):
    for name, include in includes(root / "src"):
        mine, first = name.parts[0], include.split("/")[0]
        layer, its_layer = "/".join(name.parts[:2]), "/".join(include.split("/")[:2])
        if mine not in modules:
            yield f"src/{name}: the table of docs/design.md has no module {mine}"
        elif "/" not in include:
            yield f"src/{name} includes {include} without its module"
        elif first != "samebits" and first not in modules[mine]:
            yield f"src/{name} includes {include}: {mine} may include {', '.join(sorted(modules[mine]))}"
        elif first == "ffn" and layer in LAYERS and its_layer not in LAYERS[layer]:
            yield f"src/{name} includes {include}: {layer} may include {', '.join(sorted(LAYERS[layer]))} of ffn"


def of_tools(root, folders):
    for folder in {path.name for path in (root / "tools").iterdir() if path.is_dir()} ^ set(folders):
        yield f"tools/{folder} is not both a folder and a row of docs/design.md"
    for folder, others in folders.items():
        for name, include in includes(root / "tools" / folder):
            first = include.split("/")[0]
            if first in folders and first not in others:
                yield f"tools/{folder}/{name} includes {include}: {folder} may include {', '.join(sorted(others))}"


def of_python(root, modules):
    for name, include in includes(root / "python" / "src"):
        if include.split("/")[0] in modules:
            yield f"python/src/{name} includes {include}: python includes nothing but public headers"


def main():
    root = Path(sys.argv[1])
    page = (root / "docs" / "design.md").read_text()
    modules, folders = allowed(page, "src"), allowed(page, "tools")
    if not {"numerics", "engine", "ffn", "io"} <= set(modules) or not {"shared", "verbs"} <= set(folders):
        sys.exit(f"docs/design.md: its tables were not understood: {sorted(modules)}, {sorted(folders)}")
    found = [*of_src(root, modules), *of_tools(root, folders), *of_python(root, modules)]
    print("\n".join(found) or f"{len(modules)} modules and {len(folders)} folders of tools, each within what it may include")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
