"""Four processes under torchrun, with gloo: every layout gives the bits of one rank. What they do stands in torch_ranks.py."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PARTS = ["layouts", "odd_tokens", "batches", "ways_of_weights", "sums", "compiled", "hugging_face", "fully_sharded", "refusals"]


def run_ranks(parts, timeout=240):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "torch_ranks.py", *parts]
    return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=timeout)


def test_four_ranks():
    done = run_ranks(PARTS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for part in PARTS:
        assert f"{part}: equal bits" in done.stdout
