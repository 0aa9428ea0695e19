"""Four processes under torchrun, with gloo: every layout gives the bits of one rank. What they do stands in torch_ranks.py."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PARTS = [
    "layouts",
    "other_meshes",
    "odd_tokens",
    "batches",
    "ways_of_weights",
    "sums",
    "compiled",
    "hugging_face",
    "fully_sharded",
    "refusals",
]


def run_ranks(parts, timeout=240):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "torch_ranks.py", *parts]
    return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=timeout)


def test_four_ranks():
    done = run_ranks(PARTS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for part in PARTS:
        assert f"{part}: equal bits" in done.stdout


def test_a_rank_that_dies_is_an_error_on_the_other(tmp_path):
    command = [sys.executable, "torch_lost_rank.py"]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "rendezvous")], cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    told, _ = ranks[0].communicate(timeout=90)
    assert ranks[1].wait(timeout=10) == 3
    assert ranks[0].returncode == 0 and "Error after" in told, told
