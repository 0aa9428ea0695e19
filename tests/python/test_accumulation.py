"""Weight gradients over micro-batches have the bits of one backward over all of them."""

import gc

import numpy as np
import pytest
from support import BF16, GRADIENTS, HIDDEN, INTERMEDIATE, TOKENS, Block, goldens, on_threads

import samebits

GOLDENS = goldens()
CUTS = {False: [0, 5, 37, 37, 64, TOKENS], True: [0, 16, 48, 48, 64, TOKENS]}  # True: inside a leaf, at multiples of 16 only


def outputs(block, dtype=BF16):
    return {name: np.zeros(weight.shape, dtype) for name, weight in zip(GRADIENTS, block.weights)}


def add(plan, block, sum_, begin, end, **more):
    x, dy = block.x[begin:end], block.dy[begin:end]
    plan.forward(x, np.empty_like(x), *block.weights)
    plan.backward(x, dy, *block.weights, accumulate=sum_, **more)


@pytest.mark.parametrize("contract", GOLDENS)
def test_micro_batches(contract):
    block, golden = Block(), GOLDENS[contract]
    plan = samebits.Plan(contract, HIDDEN, INTERMEDIATE, TOKENS)
    sum_ = samebits.GradientAccumulator(plan, TOKENS, tokens=TOKENS)
    assert sum_.bytes > 0
    cuts = CUTS["sm90" in contract]
    for _ in range(2):  # it is empty again after finish
        for begin, end in zip(cuts, cuts[1:]):
            add(plan, block, sum_, begin, end)
            assert sum_.tokens == end
        made = outputs(block)
        sum_.finish(**made)
        assert {name: samebits.digest(array) for name, array in made.items()} == {name: golden[name] for name in made}
        assert sum_.tokens == 0
    for begin, end in zip(cuts, cuts[1:]):
        add(plan, block, sum_, begin, end)
    wide = outputs(block, np.float32)
    sum_.finish(**wide)
    assert samebits.digest(wide["d_gate"]) == golden["d_gate_f32"] and samebits.digest(wide["d_down"]) == golden["d_down_f32"]


def test_padding_is_not_counted():
    block, golden = Block(), GOLDENS["f32-tree-v1"]
    plan = samebits.Plan("f32-tree-v1", HIDDEN, INTERMEDIATE, TOKENS)
    sum_ = samebits.GradientAccumulator(plan, TOKENS)
    add(plan, block, sum_, 0, 40, counted=30)
    add(plan, block, sum_, 30, TOKENS)
    made = outputs(block)
    sum_.finish(**made)
    assert samebits.digest(made["d_up"]) == golden["d_up"]


def test_places_say_where_tokens_stand():
    block, golden = Block(), GOLDENS["f32-tree-v1,T=block:16"]
    plan = samebits.Plan("f32-tree-v1,T=block:16", HIDDEN, INTERMEDIATE, TOKENS)
    sum_ = samebits.GradientAccumulator(plan, TOKENS, stretches=2)
    for begin, end in ((0, 16), (48, 64), (16, 48), (64, TOKENS)):  # two stretches, from 0 and from 48
        add(plan, block, sum_, begin, end, places=[[(begin, end)]])
    made = outputs(block)
    sum_.finish(**made)
    assert {name: samebits.digest(array) for name, array in made.items()} == {name: golden[name] for name in made}


def test_clear_forgets_and_missing_tokens_are_named():
    block = Block()
    plan = samebits.Plan("bf16-tree-v1", HIDDEN, INTERMEDIATE, TOKENS)
    with pytest.raises(ValueError, match="tokens"):
        samebits.GradientAccumulator(plan, TOKENS)  # the tree depends on their number
    sum_ = samebits.GradientAccumulator(plan, TOKENS, tokens=TOKENS)
    add(plan, block, sum_, 0, 40)
    with pytest.raises(ValueError, match="40"):
        sum_.finish(**outputs(block))
    sum_.clear()
    assert sum_.tokens == 0
    with pytest.raises(ValueError, match="^reduction is 'sum'; it is auto, gather or exchange$"):
        samebits.GradientAccumulator(plan, TOKENS, tokens=TOKENS, reduction="sum")
    with pytest.raises(TypeError, match="float16|f16"):
        sum_.finish(**outputs(block, np.float16))
    same = outputs(block)
    with pytest.raises(ValueError, match="^d_gate shares memory with d_up"):
        sum_.finish(**{**same, "d_up": same["d_gate"]})


def test_a_sum_keeps_its_plan():
    block = Block()
    plan = samebits.Plan("f32-tree-v1", HIDDEN, INTERMEDIATE, TOKENS)
    sum_ = samebits.GradientAccumulator(plan, TOKENS)
    add(plan, block, sum_, 0, TOKENS)
    del plan
    gc.collect()
    made = outputs(block)
    sum_.finish(**made)
    assert samebits.digest(made["d_gate"]) == GOLDENS["f32-tree-v1"]["d_gate"]


@pytest.mark.parametrize("reduction", ["auto", "gather", "exchange"])
def test_context_ranks(reduction):
    contract, block = "f32-tree-v1,T=block:16", Block()
    golden, transports = GOLDENS[contract], samebits.local_transports(2)

    def play(rank):
        plan = samebits.Plan(contract, HIDDEN, INTERMEDIATE, TOKENS, cp=2, threads=1, max_rank_tokens=TOKENS, transport=transports[rank])
        sum_ = samebits.GradientAccumulator(plan, TOKENS, reduction=reduction)
        for begin, middle, end in ((0, 16, 32), (32, 64, TOKENS)):
            shards = [[(0, middle - begin)], [(middle - begin, end - begin)]]
            rows = slice(begin, middle) if rank == 0 else slice(middle, end)
            x, dy = block.x[rows], block.dy[rows]
            plan.forward(x, np.empty_like(x), *block.weights, shards=shards)
            plan.backward(x, dy, *block.weights, accumulate=sum_, shards=shards)
        made = outputs(block)
        sum_.finish(**made)
        return made

    for made in on_threads(2, play):
        assert {name: samebits.digest(array) for name, array in made.items()} == {name: golden[name] for name in made}
