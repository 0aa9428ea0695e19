"""Ranks as threads: every layout gives the digests of one rank."""

import numpy as np
import pytest
from support import BF16, GRADIENTS, HIDDEN, INTERMEDIATE, TOKENS, Block, CallbackWorld, bits, goldens, on_threads

import samebits

GOLDENS = goldens()
LAYOUTS = {  # tp, cp, sp
    "tp2": (2, 1, False),
    "tp2+sp": (2, 1, True),
    "cp2": (1, 2, False),
    "tp2+cp2": (2, 2, False),
    "tp2+cp2+sp": (2, 2, True),
}


def rows_of(plan, shards):
    """The tokens whose rows a rank holds, in order."""
    tp = int(plan.layout.split("+")[0][2:]) if plan.layout.startswith("tp") else 1
    held = [token for begin, end in shards[plan.shard.cp_rank] for token in range(begin, end)]
    if not plan.layout.endswith("+sp"):
        return held
    rank = plan.shard.tp_rank
    return held[len(held) * rank // tp : len(held) * (rank + 1) // tp]


def run_layout(block, contract, layout, transports, shards=None, dtype=BF16, **options):
    """The whole tensors, put together from what ranks hold; where two ranks hold the same, their bits are compared."""
    tp, cp, sp = layout
    shards = shards or samebits.contiguous_shards(block.tokens, cp)
    whole = {"y": np.zeros_like(block.x), "dx": np.zeros_like(block.x)}
    whole.update((name, np.zeros(weight.shape, dtype)) for name, weight in zip(GRADIENTS, block.weights))

    def play(rank):
        plan = samebits.Plan(
            contract, block.hidden, block.intermediate, block.tokens, tp=tp, cp=cp, sequence_parallel=sp, threads=1,
            max_rank_tokens=block.tokens, transport=transports(rank), **options,
        )  # fmt: skip
        rows = rows_of(plan, shards)
        x, dy = block.x[rows], block.dy[rows]
        begin, end = plan.shard.intermediate
        parts = {"y": np.empty_like(x), "dx": np.empty_like(x)}
        gradients = {
            "d_gate": np.empty((end - begin, block.hidden), dtype),
            "d_up": np.empty((end - begin, block.hidden), dtype),
            "d_down": np.empty((block.hidden, end - begin), dtype),
        }
        weights = samebits.slice_weights(plan, *block.weights)
        plan.forward(x, parts["y"], **weights, shards=shards)
        plan.backward(x, dy, **weights, dx=parts["dx"], **gradients, shards=shards)
        return plan, rows, {**parts, **gradients}

    filled = {name: np.zeros(array.shape, bool) for name, array in whole.items()}
    for plan, rows, parts in on_threads(tp * cp, play):
        begin, end = plan.shard.intermediate
        places = {"y": (rows,), "dx": (rows,), "d_gate": slice(begin, end), "d_up": slice(begin, end)}
        places["d_down"] = (slice(None), slice(begin, end))
        for name, part in parts.items():
            place, before = places[name], filled[name]
            if before[place].size and before[place].all():
                assert bits(whole[name][place]) == bits(part), f"ranks disagree about {name}"
            whole[name][place] = part
            before[place] = True
    assert all(array.all() for array in filled.values())
    return whole


def local(ranks):
    transports = samebits.local_transports(ranks)
    return lambda rank: transports[rank]


def check(made, contract):
    golden = GOLDENS[contract]
    digests = {name: samebits.digest(array) for name, array in made.items()}
    assert digests == {name: golden[name] for name in made}


@pytest.mark.parametrize("contract", GOLDENS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_local(contract, name):
    layout = LAYOUTS[name]
    check(run_layout(Block(), contract, layout, local(layout[0] * layout[1])), contract)


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_callbacks(name, concurrent):
    tp, cp, sp = LAYOUTS[name]
    for contract in ("bf16-tree-v1", "hf-sm90-v1"):
        world = CallbackWorld(tp * cp, concurrent)
        check(run_layout(Block(), contract, (tp, cp, sp), world.transport), contract)
        assert world.calls > 0


def test_zigzag_shards_and_policies():
    shards = samebits.zigzag_shards(TOKENS, 2)
    assert shards[0][0][0] == 0 and shards[0][-1][1] == TOKENS and shards != samebits.contiguous_shards(TOKENS, 2)
    for options in ({}, {"down": "rows"}, {"gradients": "gather"}, {"exchange": "slice-owner"}, {"overlap": "off"}):
        check(run_layout(Block(), "f32-tree-v1", (2, 2, True), local(4), shards, **options), "f32-tree-v1")


def test_replicas_that_differ_are_named():
    block = Block()
    check(run_layout(block, "f32-tree-v1", (2, 2, False), local(4), check_replicas=True), "f32-tree-v1")
    transports, other = samebits.local_transports(2), np.array(block.weights[1])
    other[3, 5] += other[3, 5]

    def play(rank):
        plan = samebits.Plan("f32-tree-v1", HIDDEN, INTERMEDIATE, TOKENS, cp=2, check_replicas=True, transport=transports[rank])
        (begin, end), gate, up, down = samebits.contiguous_shards(TOKENS, 2)[rank][0], *block.weights
        x, y = block.x[begin:end], np.empty_like(block.x[begin:end])
        with pytest.raises(samebits.RankError, match="^rank 1 has up of tensor rank 0 208 x 64, digest .*, rank 0 has 208 x 64, digest "):
            plan.forward(x, y, gate, other if rank else up, down, tokens=TOKENS)
        plan.forward(x, y, gate, up, down, tokens=TOKENS)
        return bits(y)

    assert b"".join(on_threads(2, play)) == bits(samebits.ffn(block.x, *block.weights, contract="f32-tree-v1"))


def test_plan_says_what_a_rank_holds():
    transports = samebits.local_transports(2)

    def play(rank):
        return samebits.Plan("hf-sm90-v1", HIDDEN, INTERMEDIATE, TOKENS, tp=2, transport=transports[rank])

    first, second = on_threads(2, play)
    assert (first.layout, first.down, first.holds_both_cuts) == ("tp2", "rows", True)
    assert (first.shard.intermediate, second.shard.intermediate) == ((0, 104), (104, 208))
    assert (first.shard.hidden, second.shard.hidden) == ((0, 32), (32, 64))
    assert (second.shard.tp_rank, second.shard.cp_rank) == (1, 0)
    assert first.workspace_bytes > 0 and first.contract == samebits.Contract("hf-sm90-v1")
    assert (first.hidden, first.intermediate, first.max_tokens) == (HIDDEN, INTERMEDIATE, TOKENS)


def test_random_shapes():
    random = np.random.default_rng(7)
    for _ in range(12):
        contract = random.choice(["bf16-tree-v1", "f32-tree-v1", "sm90-v1,I=max:32,node=bf16,lanes=bf16", "f32-tree-v1,T=block:16"])
        block = Block(int(random.integers(0, 40)), int(random.integers(1, 70)), int(random.integers(64, 200)), int(random.integers(9)))
        layout = list(LAYOUTS.values())[random.integers(len(LAYOUTS))]
        expected = block.run(str(contract))
        made = run_layout(block, str(contract), layout, local(layout[0] * layout[1]))
        for name, array in made.items():
            assert bits(array) == bits(expected[name]), (contract, block.x.shape, block.intermediate, layout, name)
