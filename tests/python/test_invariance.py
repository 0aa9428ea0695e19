"""What may not move a bit: the batch, threads, repeats; over random shapes."""

import importlib.metadata
import threading

import numpy as np
import pytest
from support import BF16, Block, bits

import samebits
from samebits import plans

PRESETS = ["bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1", "gfx942-v1"]


@pytest.mark.parametrize("contract", PRESETS)
def test_a_row_does_not_know_its_batch(contract):
    block = Block(tokens=40, hidden=96, intermediate=160)
    y = samebits.ffn(block.x, *block.weights, contract=contract)
    dx = samebits.ffn_backward(block.x, block.dy, *block.weights, contract=contract).dx
    for begin, end in ((0, 1), (39, 40), (0, 32), (7, 40), (3, 20)):
        assert bits(samebits.ffn(block.x[begin:end], *block.weights, contract=contract)) == bits(y[begin:end])
        part = samebits.ffn_backward(block.x[begin:end], block.dy[begin:end], *block.weights, contract=contract)
        assert bits(part.dx) == bits(dx[begin:end])


def test_random_shapes_against_plans_of_their_own():
    random = np.random.default_rng(3)
    for _ in range(25):
        contract = str(random.choice(PRESETS))
        block = Block(*(int(size) for size in random.integers([0, 1, 1], [50, 90, 130])), seed=int(random.integers(100)))
        made = block.run(contract)
        room, threads = int(random.integers(0, 30)), int(random.integers(1, 4))
        # The token tree depends on the tokens of a call, not on the room of its plan.
        plan = samebits.Plan(contract, block.hidden, block.intermediate, block.tokens + room, threads=threads)
        y, dx = np.full_like(block.x, 9), np.full_like(block.x, 9)
        gradients = [np.full(weight.shape, 9, BF16) for weight in block.weights]
        saved = tuple(np.zeros((block.tokens, block.intermediate), BF16) for _ in range(3))
        plan.forward(block.x, y, *block.weights, saved=saved)
        plan.forward(block.x[:1], np.zeros_like(y[:1]), *block.weights)  # another forward comes between
        if random.integers(2):  # the activations anew, without the result
            saved = tuple(np.zeros_like(array) for array in saved)
            plan = samebits.Plan(contract, block.hidden, block.intermediate, block.tokens + room, own_saved=False)
            plan.forward(block.x, None, *block.weights[:2], saved=saved)
        for array in saved:
            array.flags.writeable = False  # a backward only reads them
        plan.backward(block.x, block.dy, *block.weights, dx=dx, saved=saved)
        plan.backward(
            block.x, block.dy, *block.weights, d_gate=gradients[0], d_up=gradients[1], d_down=gradients[2], saved=saved
        )
        for name, array in zip(made, (y, dx, *gradients)):
            assert bits(array) == bits(made[name]), (contract, block.x.shape, block.intermediate, name)


def test_plans_are_shared_by_shape_contract_and_rounded_tokens():
    assert [plans.rounded_tokens(tokens) for tokens in (0, 1, 32, 33, 64, 65, 1000)] == [32, 32, 32, 64, 64, 128, 1024]
    samebits.clear_cache()
    assert plans.cached_plans() == 0
    block = Block(tokens=20, hidden=32, intermediate=32)
    for tokens in (1, 5, 20):
        samebits.ffn(block.x[:tokens], *block.weights)
    assert plans.cached_plans() == 1
    samebits.ffn(block.x, *block.weights, contract=samebits.Contract("bf16-tree-v1"))
    assert plans.cached_plans() == 1
    samebits.ffn(block.x, *block.weights, contract="sm90-v1")
    assert plans.cached_plans() == 2
    samebits.ffn_backward(block.x, block.dy, *block.weights)
    assert plans.cached_plans() == 3
    for hidden in range(1, 20):
        other = Block(tokens=1, hidden=hidden, intermediate=8)
        samebits.ffn(other.x, *other.weights)
    assert plans.cached_plans() == plans.CACHED
    samebits.clear_cache()
    assert plans.cached_plans() == 0


def test_threads_share_the_cache():
    """Backwards of several threads through one cached plan: none reads what another's forward left."""
    blocks = [Block(tokens=17, hidden=40, intermediate=72, seed=seed) for seed in range(4)]
    expected = [block.run("bf16-tree-v1") for block in blocks]
    wrong = []

    def work(number):
        for _ in range(40):
            for name, array in blocks[number].run("bf16-tree-v1").items():
                if bits(array) != bits(expected[number][name]):
                    wrong.append((number, name))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_contracts_are_values():
    contract = samebits.Contract("sm90-v1,swiglu=two")
    assert contract == samebits.Contract(contract.canonical) == samebits.Contract(contract)
    assert contract != samebits.Contract("sm90-v1") and contract != "sm90-v1,swiglu=two"
    assert hash(contract) == hash(samebits.Contract(contract.canonical))
    assert contract.name == contract.canonical and samebits.Contract("sm90-v1").name == "sm90-v1"
    assert contract.fields == {**samebits.Contract("sm90-v1").fields, "swiglu": "two"}
    assert contract.fields["leaf"] == "sm90" and len(contract.fingerprint) == 16
    assert eval(repr(contract), {"Contract": samebits.Contract}) == contract
    assert samebits.Contract("bf16-tree-v1").fingerprint == "23b7fa71e83beffe"


def test_seeded_values():
    x = samebits.seeded("x", 5, 7, seed=2**40 + 1)
    out = np.zeros((5, 7), BF16)
    assert samebits.seeded("x", 5, 7, seed=2**40 + 1, out=out) is out and bits(out) == bits(x)
    assert bits(samebits.seeded("x", 5, 7, seed=1)) != bits(x) != bits(samebits.seeded("gate", 5, 7, seed=2**40 + 1))
    with pytest.raises(ValueError, match="'z' is unknown"):
        samebits.seeded("z", 1, 1)
    with pytest.raises(ValueError, match=r"out is \[5, 7\]"):
        samebits.seeded("x", 7, 5, out=out)
    with pytest.raises(TypeError, match="bfloat16"):
        samebits.seeded("x", 5, 7, out=out.astype(np.float32))


def test_status_and_version():
    status = samebits.cuda_status()
    assert set(status) == {"built", "runtime", "driver", "problem", "devices"}
    assert bool(status["problem"]) != bool(status["devices"])
    assert samebits.best_isa() in ("avx512", "avx2", "plain")
    assert samebits.__version__ == importlib.metadata.version("samebits")
