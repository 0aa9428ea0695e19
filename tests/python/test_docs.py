"""The Python code in the documentation runs, and prints what stands below it; the reference is what the docstrings say."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)


def run_blocks(page):
    """Each block in the names that those before it left. A block for torchrun is read over."""
    names = {"__name__": "documentation"}
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    assert blocks
    for code, expected in blocks:
        if code.startswith("# torchrun"):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)  # noqa: S102
        if expected:
            assert printed.getvalue() == expected, code


def test_python():
    run_blocks("python.md")


def test_pytorch():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    run_blocks("pytorch.md")


def test_reference():
    pytest.importorskip("torch")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("signatures are written as Python 3.11 writes them")
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "python_reference.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
