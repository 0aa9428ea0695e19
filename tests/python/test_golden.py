"""The golden digests of docs/numerics.md section 8, through the package."""

import numpy as np
import pytest
from support import BF16, GRADIENTS, HIDDEN, INTERMEDIATE, TOKENS, Block, goldens

import samebits

GOLDENS = goldens()


def test_the_table_is_read():
    assert len(GOLDENS) == 6 and all(len(row) == 7 for row in GOLDENS.values())
    presets = [name for name in samebits.contract_presets() if name in GOLDENS]
    assert presets == ["bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1"]


@pytest.mark.parametrize("contract", GOLDENS)
def test_functions(contract):
    golden = GOLDENS[contract]
    made = Block().run(contract)
    assert {name: samebits.digest(array) for name, array in made.items()} == {name: golden[name] for name in made}
    wide = Block().run(contract, np.float32)
    for name in ("d_gate", "d_down"):
        assert wide[name].dtype == np.float32
        assert samebits.digest(wide[name]) == golden[f"{name}_f32"]


@pytest.mark.parametrize("contract", GOLDENS)
def test_plan(contract):
    block, golden = Block(), GOLDENS[contract]
    plan = samebits.Plan(contract, HIDDEN, INTERMEDIATE, TOKENS, threads=1)
    y, dx = np.empty_like(block.x), np.empty_like(block.x)
    gradients = [np.empty(weight.shape, BF16) for weight in block.weights]
    plan.forward(block.x, y, *block.weights)
    plan.backward(block.x, block.dy, *block.weights, dx=dx, **dict(zip(GRADIENTS, gradients)))
    made = dict(zip(("y", "dx", *GRADIENTS), (y, dx, *gradients)))
    assert {name: samebits.digest(array) for name, array in made.items()} == {name: golden[name] for name in made}


def test_another_operand_has_another_digest():
    block = Block()
    block.x[76, 63] = -block.x[76, 63]
    made = block.run("bf16-tree-v1")
    golden = GOLDENS["bf16-tree-v1"]
    assert all(samebits.digest(array) != golden[name] for name, array in made.items())


def test_every_preset_runs():
    for contract in samebits.contract_presets():
        made = Block(tokens=3, hidden=32, intermediate=48).run(contract)
        assert np.isfinite(made["d_down"].astype(np.float32)).all() and np.any(made["y"])
