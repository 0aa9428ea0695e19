"""Every error as the exception that the documentation names, in one line, with the library's message; and never a rank that waits."""

import gc
import threading
import weakref

import numpy as np
import pytest
from support import HIDDEN, INTERMEDIATE, TOKENS, Block, CallbackWorld, on_threads

import samebits
from samebits.bench.ranks import on_ranks

BLOCK = Block()


def plan_of(contract="bf16-tree-v1", **options):
    return samebits.Plan(contract, HIDDEN, INTERMEDIATE, TOKENS, **options)


def test_kinds_of_exceptions():
    assert issubclass(samebits.Refused, ValueError)
    assert issubclass(samebits.EnvironmentProblem, RuntimeError)
    assert issubclass(samebits.RankError, RuntimeError)
    assert samebits.Refused.__module__ == "samebits" and samebits.RankError.__doc__


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: samebits.Contract("nope"), "no such contract; presets are bf16-tree-v1"),
        (lambda: samebits.Contract("sm90-v1,node=f8"), "node"),
        (lambda: samebits.Plan("sm90-v1", 0, 8, 8), "shape 0x8"),
        (lambda: samebits.Plan("sm90-v1", 8, 8, -1), "a count is not negative"),
        (lambda: plan_of(device="tpu"), "^device is 'tpu'; it is cpu, cuda, cuda:N, hip or hip:N$"),
        (lambda: plan_of(device="cuda:x"), "device is 'cuda:x'"),
        (lambda: plan_of(threads=-1), "-1 threads"),
        (lambda: plan_of(down="up"), "^down is 'up'; it is auto, columns or rows$"),
        (lambda: plan_of(weights="no"), "^weights is 'no'; it is auto, once or both$"),
        (lambda: plan_of(gradients="no"), "^gradients is 'no'; it is auto, gather or exchange$"),
        (lambda: plan_of(exchange="no"), "^exchange is 'no'; it is auto, one-shot or slice-owner$"),
        (lambda: plan_of(overlap="on"), "^overlap is 'on'; it is auto or off$"),
        (lambda: plan_of(tp=2), "rank"),
        (lambda: samebits.local_transports(0), "rank"),
        (lambda: samebits.CallbackTransport(2, 2, print, print), "rank 2 of 2 ranks"),
        (lambda: samebits.CallbackTransport(0, 2, print, print, spaces=("tpu",)), "a space is 'tpu'; it is cpu, cuda or hip"),
        (lambda: samebits.ffn_backward(BLOCK.x, BLOCK.dy, *BLOCK.weights, gradient_dtype="f16"), "gradient_dtype is 'f16'"),
    ],
)
def test_value_errors(build, message):
    with pytest.raises(ValueError, match=message) as raised:
        build()
    assert "\n" not in str(raised.value)


def test_shapes():
    x, (gate, up, down) = BLOCK.x, BLOCK.weights
    for arguments, message in (
        ((x, gate, up, down.T), "^down is 208 x 64, the plan expects 64 x 208$"),
        ((x, gate, up[1:], down), "^up is 207 x 64, the plan expects 208 x 64$"),
        ((x[:, 1:], gate, up, down), "the last axes of both are H"),
        ((x, gate[0], up, down), r"w_gate is \[64\]; it is \[I, H\]"),
        ((x[0, 0], gate, up, down), "x is a scalar"),
    ):
        with pytest.raises(ValueError, match=message):
            samebits.ffn(*arguments)
    with pytest.raises(ValueError, match=r"out is \[76, 64\]; it is \[77, 64\] here"):
        samebits.ffn(x, gate, up, down, out=np.zeros_like(x[1:]))
    with pytest.raises(ValueError, match=r"dy is \[76, 64\], x is \[77, 64\]"):
        samebits.ffn_backward(x, BLOCK.dy[1:], gate, up, down)
    plan, y = plan_of(), np.zeros_like(x)
    with pytest.raises(ValueError, match="no room of its own for activations"):
        plan_of(own_saved=False).forward(x, y, gate, up, down)
    with pytest.raises(ValueError, match="y is empty, and nothing of an inference plan's forward is kept"):
        plan_of(backward=False).forward(x, None, gate, up, down)
    with pytest.raises(ValueError, match="^y is 76 x 64, the plan expects 77 x 64$"):
        plan.forward(x, y[1:], gate, up, down)
    with pytest.raises(ValueError, match=r"78 tokens .* are more than the plan's max_tokens 77 \("):
        plan.forward(np.zeros((78, 64), x.dtype), np.zeros((78, 64), x.dtype), gate, up, down)
    with pytest.raises(ValueError, match="^gate is 0 x 0, the plan expects 208 x 64$"):
        plan.forward(x, y, None, up, down)
    with pytest.raises(ValueError, match=r"^gate is \[207, 64\], the plan expects \[208, 64\]$"):
        samebits.slice_weights(plan, gate[1:], up, down)
    with pytest.raises(ValueError):
        plan.forward(x, y, gate, up, down, shards=[[(0, 70)]])
    with pytest.raises(TypeError, match="saved is a tuple of three arrays"):
        plan.forward(x, y, gate, up, down, saved=[1, 2])
    with pytest.raises(ValueError, match="forward"):
        plan.backward(x, BLOCK.dy, gate, up, down, dx=y)  # none came before
    with pytest.raises(ValueError):
        plan_of(backward=False).backward(x, BLOCK.dy, gate, up, down, dx=y)


def test_refused():
    transports = samebits.local_transports(3)
    message = "down cut by columns over tp3: .* has 1 leaf, .*; no tp above 1 cuts between leaves: cut down by rows"
    with pytest.raises(samebits.Refused, match=message):
        on_threads(3, lambda rank: plan_of("hf-sm90-v1", tp=3, down="columns", transport=transports[rank]))
    with pytest.raises(samebits.Refused, match="does not reach the memory"):
        on_threads(2, lambda rank: plan_of(tp=2, transport=samebits.CallbackTransport(rank, 2, print, print, spaces=["cuda"])))


def test_environment():
    status = samebits.cuda_status()
    if status["devices"]:
        pytest.skip("a CUDA device is there")
    with pytest.raises(samebits.EnvironmentProblem, match="cuda|CUDA"):
        plan_of(device="cuda")
    assert samebits.hip_status().keys() == status.keys()
    if samebits.hip_status()["devices"]:
        pytest.skip("a HIP device is there")
    with pytest.raises(samebits.EnvironmentProblem, match="hip|HIP"):
        plan_of(device="hip:1", contract="gfx942-v1")


def test_memory():
    with pytest.raises(MemoryError, match="memory"):
        samebits.Plan("bf16-tree-v1", 1 << 16, 1 << 18, 1 << 24)


def test_ranks_that_were_given_different_things():
    transports = samebits.local_transports(2)
    failures = []

    def play(rank):
        try:
            plan_of(["bf16-tree-v1", "f32-tree-v1"][rank], tp=2, transport=transports[rank])
        except samebits.RankError as failure:
            failures.append(str(failure))

    on_threads(2, play)
    assert len(failures) == 2 and all("contract" in failure and "\n" not in failure for failure in failures)


@pytest.mark.parametrize("world", ["local", "callbacks"])
def test_a_rank_that_fails_is_an_error_on_the_others(world):
    """In the library, and before it: an array that is refused here."""
    for wrong in ("shape", "read-only", "shards"):
        transports = samebits.local_transports(2) if world == "local" else [CallbackWorld(2)] * 2
        seen, planned = [None, None], threading.Barrier(2)

        def play(rank):
            transport = transports[rank] if world == "local" else transports[rank].transport(rank)
            plan = plan_of(tp=2, threads=1, transport=transport)
            weights, y = samebits.slice_weights(plan, *BLOCK.weights), np.zeros_like(BLOCK.x)
            more = {}
            planned.wait()
            if rank == 1 and wrong == "shape":
                weights["down"] = weights["down"][:, 1:]
            if rank == 1 and wrong == "read-only":
                y.flags.writeable = False
            if rank == 1 and wrong == "shards":
                more["shards"] = [[(0, 3), (5, 77)]]
            try:
                plan.forward(BLOCK.x, y, **weights, **more)
            except Exception as failure:
                seen[rank] = failure

        on_threads(2, play)
        assert isinstance(seen[1], ValueError), wrong
        assert isinstance(seen[0], samebits.RankError if world == "local" else ConnectionError), wrong
        assert "rank 1 failed" in str(seen[0]), wrong


def test_the_failure_that_counts_is_no_echo():
    barrier = threading.Barrier(3)

    def play(rank):
        if rank == 1:
            raise KeyError("why")
        barrier.wait()

    with pytest.raises(KeyError, match="why"):
        on_ranks(3, play, lambda rank, failure: barrier.abort(), timeout=60)
    with pytest.raises(AssertionError, match="hangs"):
        on_ranks(2, lambda rank: threading.Event().wait(rank * 5), timeout=0.2)


def test_transports_can_be_aborted():
    transports = samebits.local_transports(2)
    assert [(t.rank, t.size, t.name) for t in transports] == [(0, 2, "local"), (1, 2, "local")]
    transports[1].abort("the optimiser ran away")
    with pytest.raises(samebits.RankError, match="the optimiser ran away"):
        plan_of(tp=2, transport=transports[0])


@pytest.mark.parametrize("concurrent", [False, True])
def test_what_callbacks_raise_comes_back(concurrent):
    class Odd(Exception):
        pass

    reasons, armed = [], threading.Event()

    def play(rank):
        def wrapped(function):
            def call(*arguments):
                if rank == 1 and armed.is_set():
                    raise Odd("the wire is cut")
                function(*arguments)

            return call

        inner = world.functions(rank)
        transport = samebits.CallbackTransport(
            rank, 2, *map(wrapped, inner), lambda reason: (reasons.append(reason), world.abort(reason)), concurrent=concurrent
        )
        plan = plan_of(tp=2, threads=1, transport=transport)
        weights = samebits.slice_weights(plan, *BLOCK.weights)
        plan.forward(BLOCK.x, np.zeros_like(BLOCK.x), **weights)
        barrier.wait()
        armed.set()
        try:
            plan.forward(BLOCK.x, np.zeros_like(BLOCK.x), **weights)
        except Exception as failure:
            return failure

    world, barrier = CallbackWorld(2, concurrent), threading.Barrier(2)
    first, second = on_threads(2, play)
    assert isinstance(second, Odd) and str(second) == "the wire is cut"
    assert second.__traceback__ is not None
    assert isinstance(first, ConnectionError) and "the wire is cut" in str(first)
    assert any("rank 1 failed" in reason and "the wire is cut" in reason for reason in reasons)


def test_callbacks_are_let_go():
    class Holder:
        def gather(self, *arguments):
            raise AssertionError("one rank exchanges nothing")

    holder = Holder()
    gone = weakref.ref(holder)
    plan = plan_of(transport=samebits.CallbackTransport(0, 1, holder.gather, holder.gather))
    plan.forward(BLOCK.x, np.zeros_like(BLOCK.x), *BLOCK.weights)
    del holder
    gc.collect()
    assert gone() is not None
    del plan
    gc.collect()
    assert gone() is None
