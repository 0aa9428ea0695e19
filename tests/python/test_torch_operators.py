"""The operators: opcheck, autograd, torch.compile, strides, what is wanted, what is refused, and how many plans are kept."""

import threading

import pytest

torch = pytest.importorskip("torch")

from torch_support import TorchBlock, require_equal  # noqa: E402

import samebits  # noqa: E402
import samebits.torch  # noqa: E402
from samebits.torch import plans  # noqa: E402

CONTRACTS = ["bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1"]
OPERATORS = torch.ops.samebits
NAMES = ("dx", "d_gate", "d_up", "d_down")


@pytest.fixture
def block():
    return TorchBlock()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(block, requires_grad):
    for operands in (block.operands((requires_grad,) * 4), block.operands((requires_grad, False, False, False))):
        for operator in (OPERATORS.ffn, OPERATORS.ffn_saving):
            torch.library.opcheck(operator, (*operands, "bf16-tree-v1"))
    _, *saved = OPERATORS.ffn_saving(block.x, *block.weights, "sm90-v1")
    for wanted in ((True, True), (True, False), (False, True)):
        torch.library.opcheck(OPERATORS.ffn_backward, (block.x, block.dy, *block.weights, *saved, "sm90-v1", *wanted))
        torch.library.opcheck(OPERATORS.ffn_backward, (block.x, block.dy, *block.weights, None, None, None, "sm90-v1", *wanted))


def test_opcheck_of_other_shapes(block):
    folded = block.x.reshape(1, 13, 48).expand(3, 13, 48).requires_grad_()  # rows that are no rows of one stride: copied
    torch.library.opcheck(OPERATORS.ffn, (folded, *block.weights, "f32-tree-v1"))
    torch.library.opcheck(OPERATORS.ffn_saving, (block.x[:0].requires_grad_(), *block.weights, "f32-tree-v1"))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("contract", CONTRACTS)
def test_gradients(block, contract, recompute):
    expected = block.expected(contract)
    operands = block.operands()
    y = samebits.torch.ffn(*operands, contract, recompute)
    require_equal("y", y, expected["y"])
    y.backward(block.dy)
    for name, operand in zip(NAMES, operands):
        require_equal(name, operand.grad, expected[name])


@pytest.mark.parametrize("recompute", [False, True])
def test_one_axis(block, recompute):
    """A single token without an axis of tokens."""
    x, *weights = (operand.detach() for operand in block.operands())
    whole, one = x[3:4].clone().requires_grad_(), x[3].clone().requires_grad_()
    for operand, dy in ((whole, block.dy[3:4]), (one, block.dy[3])):
        samebits.torch.ffn(operand, *weights, "sm90-v1", recompute).backward(dy)
    assert one.grad.shape == one.shape
    require_equal("dx", one.grad[None], whole.grad)


def test_another_gradient_shows(block):
    expected = block.expected("bf16-tree-v1")
    operands = block.operands()
    block.dy[3, 7] *= 2
    samebits.torch.ffn(*operands, "bf16-tree-v1").backward(block.dy)
    assert all(not samebits.compare(operand.grad, expected[name]).equal for name, operand in zip(NAMES, operands))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("wanted", [(1, 0, 0, 0), (0, 1, 1, 1), (0, 0, 1, 0), (1, 1, 0, 0)])
def test_what_is_wanted(block, wanted, recompute):
    expected = block.expected("sm90-v1")
    operands = block.operands([bool(want) for want in wanted])
    samebits.torch.ffn(*operands, "sm90-v1", recompute).backward(block.dy)
    for name, operand, want in zip(NAMES, operands, wanted):
        if want:
            require_equal(name, operand.grad, expected[name])
        else:
            assert operand.grad is None


def test_saved_only_where_gradients_are_recorded(block, monkeypatch):
    called = []
    monkeypatch.setattr(samebits.torch.functional.operators, "ffn_saving_operator", lambda *_: called.append(1))
    samebits.torch.ffn(block.x, *block.weights, "sm90-v1")
    with torch.no_grad():
        samebits.torch.ffn(*block.operands(), "sm90-v1")
    with torch.inference_mode():
        samebits.torch.ffn(*block.operands(), "sm90-v1")
    assert not called


def test_batches_strides_and_rows(block):
    expected = block.expected("bf16-tree-v1")["y"]
    columns = [weight.t().contiguous().t() for weight in block.weights]
    require_equal("strided weights", samebits.torch.ffn(block.x, *columns, "bf16-tree-v1"), expected)
    wide = torch.zeros(13, 99, dtype=torch.bfloat16)
    wide[:, 7:55] = block.x
    require_equal("strided x", samebits.torch.ffn(wide[:, 7:55], *block.weights, "bf16-tree-v1"), expected)
    assert samebits.torch.ffn(block.x.view(13, 1, 48).transpose(0, 1), *block.weights, "bf16-tree-v1").shape == (1, 13, 48)
    require_equal("one row", samebits.torch.ffn(block.x[5], *block.weights, "bf16-tree-v1"), expected[5])
    with_gradient = block.x.clone().requires_grad_()
    strided = block.dy.t().contiguous().t()
    samebits.torch.ffn(with_gradient, *block.weights, "bf16-tree-v1").backward(strided)
    require_equal("dx of a strided dy", with_gradient.grad, block.expected("bf16-tree-v1")["dx"])


def test_a_gradient_of_one_repeated_value(block):
    results = []
    for dy in (torch.ones_like(block.x), torch.ones(1, 1, dtype=torch.bfloat16).expand(13, 48)):  # as sum().backward() gives it
        x = block.x.clone().requires_grad_()
        samebits.torch.ffn(x, *block.weights, "sm90-v1").backward(dy)
        results.append(x.grad)
    require_equal("dx", *results)


@pytest.mark.parametrize("recompute", [False, True])
def test_no_tokens(block, recompute):
    operands = block.operands()
    operands[0] = block.x[:0].clone().requires_grad_()
    y = samebits.torch.ffn(*operands, "f32-tree-v1", recompute)
    y.backward(block.dy[:0])
    assert y.shape == (0, 48) and operands[0].grad.shape == (0, 48)
    assert all(not operand.grad.view(torch.int16).any() for operand in operands[1:])  # an empty sum is +0


def test_a_forward_between_forward_and_backward(block):
    other = TorchBlock(seed=5)
    expected = block.expected("sm90-v1")
    operands = block.operands()
    y = samebits.torch.ffn(*operands, "sm90-v1")
    samebits.torch.ffn(*other.operands(), "sm90-v1").backward(other.dy)
    y.backward(block.dy)
    for name, operand in zip(NAMES, operands):
        require_equal(name, operand.grad, expected[name])


def test_a_weight_changed_before_backward_is_an_error(block):
    operands = block.operands((True, False, False, False))
    y = samebits.torch.ffn(*operands, "sm90-v1")
    operands[1].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward(block.dy)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(block, dynamic):
    def twice(x, gate, up, down):
        return samebits.torch.ffn(samebits.torch.ffn(x, gate, up, down, "sm90-v1") * 2, gate, up, down, "sm90-v1")

    compiled = torch.compile(twice, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for tokens in (13, 4):
        results = []
        for function in (twice, compiled):
            operands = block.operands()
            operands[0] = block.x[:tokens].clone().requires_grad_()
            y = function(*operands)
            y.backward(block.dy[:tokens])
            results.append((y, *(operand.grad for operand in operands)))
        for name, eager, traced in zip(("y", *NAMES), *results):
            require_equal(name, traced, eager)


def test_compile_with_inductor(block):
    compiled = torch.compile(lambda *operands: samebits.torch.ffn(*operands, "bf16-tree-v1").neg(), fullgraph=True)
    expected = block.expected("bf16-tree-v1")
    operands = block.operands()
    y = compiled(*operands)
    y.backward(-block.dy)
    require_equal("y", -y, expected["y"])
    for name, operand in zip(NAMES, operands):
        require_equal(name, operand.grad, expected[name])


def test_second_derivatives_are_refused_in_words(block):
    operands = block.operands()
    y = samebits.torch.ffn(*operands, "sm90-v1")
    (dx,) = torch.autograd.grad(y, operands[0], block.dy.clone().requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives"):
        dx.sum().backward()


@pytest.mark.parametrize(
    "change, kind, message",
    [
        (lambda x, g, u, d: (x.float(), g, u, d, "sm90-v1"), TypeError, "^x is f32, the plan expects bf16$"),
        (lambda x, g, u, d: (x.double(), g, u, d, "sm90-v1"), TypeError, "^x is float64, the plan expects bf16$"),
        (lambda x, g, u, d: (x, g, u.half(), d, "sm90-v1"), TypeError, "^up is f16, the plan expects bf16$"),
        (lambda x, g, u, d: (x, g, u, d.t(), "sm90-v1"), ValueError, "^down is 112 x 48, the plan expects 48 x 112$"),
        (lambda x, g, u, d: (x, g, u[1:], d, "sm90-v1"), ValueError, "^up is 111 x 48, the plan expects 112 x 48$"),
        (lambda x, g, u, d: (x[:, 1:], g, u, d, "sm90-v1"), ValueError, "the last axes of both are H"),
        (lambda x, g, u, d: (x, g[0], u, d, "sm90-v1"), ValueError, r"w_gate is \[48\]; it is \[I, H\]"),
        (lambda x, g, u, d: (x, g, u[0], d, "sm90-v1"), ValueError, r"up is \[48\]; it has two axes"),
        (lambda x, g, u, d: (x.to_sparse(), g, u, d, "sm90-v1"), ValueError, r"another kind \(cpu, sparse_coo, bfloat16\)"),
        (lambda x, g, u, d: (x, g, u.to_sparse(), d, "sm90-v1"), ValueError, "another kind"),
        (lambda x, g, u, d: (x, g, u, d, "nope"), ValueError, "no such contract"),
    ],
)
@pytest.mark.parametrize("gradients", [False, True])
def test_refusals(block, change, kind, message, gradients):
    *operands, contract = change(block.x, *block.weights)
    operands = [operand.clone().requires_grad_(gradients) for operand in operands]
    with pytest.raises(kind, match=message) as raised:
        samebits.torch.ffn(*operands, contract)
    assert "\n" not in str(raised.value) and not isinstance(raised.value, NotImplementedError)


def test_plans_are_shared_and_bounded():
    samebits.torch.clear_cache()
    for tokens in (1, 5, 32, 9):
        block = TorchBlock(tokens)
        samebits.torch.ffn(block.x, *block.weights, "sm90-v1")
    assert plans.cached_plans() == (1, 0)
    samebits.torch.ffn(TorchBlock(33).x, *block.weights, "sm90-v1")
    assert plans.cached_plans() == (1, 0)  # the larger one in its place
    samebits.torch.ffn(*block.operands(), "sm90-v1")
    assert plans.cached_plans() == (2, 0)
    for intermediate in range(1, 2 * plans.MOST):
        other = TorchBlock(3, 16, intermediate)
        expected = other.expected("f32-tree-v1")["y"]
        require_equal("y", samebits.torch.ffn(other.x, *other.weights, "f32-tree-v1"), expected)
    assert plans.cached_plans() == (plans.MOST, 0)
    samebits.torch.clear_cache(captured=True)
    assert plans.cached_plans() == (0, 0)


def test_rounded_tokens():
    sizes = sorted({plans.rounded_tokens(tokens) for tokens in range(0, 9000)})
    assert sizes[:6] == [32, 40, 48, 56, 64, 80] and sizes[-1] == 10240
    assert all(tokens <= plans.rounded_tokens(tokens) <= max(32, 1.25 * tokens + 8) for tokens in range(1, 9000))


def test_threads(block):
    expected = block.expected("f32-tree-v1")
    wrong = []

    def play(seed):
        operands = block.operands()
        for recompute in (False, True) * 4:
            operands[0].grad = None
            samebits.torch.ffn(*operands, "f32-tree-v1", recompute).backward(block.dy)
            difference = samebits.compare(operands[0].grad, expected["dx"])
            if not difference.equal:
                wrong.append(str(difference))

    threads = [threading.Thread(target=play, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
