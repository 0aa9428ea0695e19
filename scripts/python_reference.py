#!/usr/bin/env python3
"""Writes docs/python-reference.md from the docstrings of the installed package, which needs PyTorch beside it.

usage: scripts/python_reference.py [--check]     (--check: exit code 1 where the file is not what the docstrings say)
"""

import inspect
import re
import sys
from pathlib import Path

import samebits
import samebits.torch

TARGET = Path(__file__).resolve().parents[1] / "docs" / "python-reference.md"
HEAD = """# Python reference

Made from the docstrings by `scripts/python_reference.py`. Guides: [python.md](python.md), [pytorch.md](pytorch.md).

"""


def is_bound(thing):
    """A function of the extension module."""
    return type(thing).__name__ in ("nb_func", "nb_method")


def signature_of(name, thing):
    doc = thing.__doc__ or ""
    if is_bound(thing):  # the extension's functions begin with their signatures
        return doc.split("\n\n")[0]
    try:
        return name + str(inspect.signature(thing)).replace("typing.", "")
    except (TypeError, ValueError):
        return name


def text_of(thing):
    doc = thing.__doc__ or ""
    if is_bound(thing):
        doc = doc.partition("\n\n")[2]
    doc = inspect.cleandoc(doc)
    return "" if doc.startswith("(self) -> ") else doc


def tidy(signature):
    signature = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", signature)
    signature = re.sub(r"<class '([^']*)'>", r"\1", signature)
    signature = signature.replace("collections.abc.", "")
    return re.sub(
        r"\bsamebits\._core\.",
        "",
        signature.replace("torch.Tensor", "Tensor").replace("torch.nn.modules.module.", "nn.").replace("numpy.ndarray", "Any"),
    )


def own_members(kind):
    for name, member in vars(kind).items():
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, property) or type(member).__name__ == "getset_descriptor":
            yield name, member, f"`{name}`"
        elif callable(member) and text_of(member):
            yield name, member, f"`{tidy(signature_of(name, member))}`"


def entry(prefix, name, thing):
    lines = [f"### {prefix}.{name}", ""]
    if inspect.isclass(thing):
        init = vars(thing).get("__init__")
        if init is not None and type(init).__name__ != "wrapper_descriptor" and not issubclass(thing, (tuple, Exception)):
            lines += ["```", tidy(signature_of(name, init)).replace("__init__(self, ", f"{name}(").replace("__init__", name), "```", ""]
        lines += [text_of(thing), ""]
        members = [(told, text_of(member) or "-") for member_name, member, told in own_members(thing) if member_name != "__init__"]
        for told, doc in members:
            lines += [f"- {told}" + (": " + re.sub(r"\n(?=.)", "\n  ", doc) if doc != "-" else "")]
        lines += [""] if members else []
    elif callable(thing):
        lines += ["```", tidy(signature_of(name, thing)), "```", "", text_of(thing), ""]
    else:
        lines += [f"`{thing!r}`", ""]
    return "\n".join(lines)


def reference():
    parts = [HEAD]
    for title, prefix, module in (("samebits", "samebits", samebits), ("samebits.torch", "samebits.torch", samebits.torch)):
        parts.append(f"## {title}\n\n{inspect.cleandoc(module.__doc__)}\n")
        parts += [entry(prefix, name, getattr(module, name)) for name in module.__all__ if name != "__version__"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def main():
    text = reference()
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"{TARGET.name} is not what the docstrings say: run scripts/python_reference.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
