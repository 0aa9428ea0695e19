"""The scripts of examples/, as a person runs them, at small sizes."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_rollout_and_trainer():
    command = [sys.executable, str(EXAMPLES / "rollout_and_trainer.py"), "--device", "cpu", "--tokens", "33", "--hidden", "72"]
    command += ["--intermediate", "200", "--batches", "1,32", "--layers", "1", "--tp", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and done.stdout.endswith("equal bits\n"), done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.endswith("differ")]
    assert [row[0] for row in rows] == ["y", "dx", "d_gate", "d_up", "d_down"]
    for name, _, trainer, _, rollout, count, _ in rows:
        assert trainer == rollout and len(trainer) == 32 and count == "0", name
