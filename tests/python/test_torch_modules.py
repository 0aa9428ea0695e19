"""Qwen3MLP as a module of its own: constructor, state dicts, weights that change, refusals, sums over micro-batches."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch_support import TorchBlock, config, module_of, require_equal  # noqa: E402

import samebits  # noqa: E402
import samebits.torch  # noqa: E402

CONTRACT = "sm90-v1"
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


@pytest.fixture
def block():
    return TorchBlock()


def output_of(block, *weights, contract=CONTRACT):
    return samebits.torch.ffn(block.x, *weights, contract)


def test_constructor_and_state_dict(block):
    module = samebits.torch.Qwen3MLP(config())
    assert list(module.state_dict()) == ["gate_proj.weight", "up_proj.weight", "down_proj.weight"]
    assert [tuple(weight.shape) for weight in module.parameters()] == [(112, 48), (112, 48), (48, 112)]
    assert (module.hidden_size, module.intermediate_size, module.contract) == (48, 112, "hf-sm90-v1")
    assert "hf-sm90-v1" in repr(module)
    explicit = samebits.torch.Qwen3MLP(config(), contract=samebits.Contract("sm90-v1,I=halve:4"), recompute=True)
    assert samebits.Contract(explicit.contract) == samebits.Contract("sm90-v1,I=halve:4") and explicit.recompute
    loaded = module_of(block, CONTRACT)
    require_equal("y", loaded(block.x), output_of(block, *block.weights))
    require_equal("y of a copy", copy.deepcopy(loaded)(block.x), output_of(block, *block.weights))


def test_parameters_get_gradients(block):
    for recompute in (False, True):
        module = module_of(block, CONTRACT)
        module.recompute = recompute
        module(block.x).backward(block.dy)
        for name, projection in zip(("d_gate", "d_up", "d_down"), PROJECTIONS):
            require_equal(name, getattr(module, projection).weight.grad, block.expected(CONTRACT)[name])


def test_weights_that_change_are_in_force(block):
    other = TorchBlock(seed=3)
    expected = output_of(block, *other.weights)

    def copied(module):
        for projection, weight in zip(PROJECTIONS, other.weights):
            getattr(module, projection).weight.data.copy_(weight)

    def under_no_grad(module):
        with torch.no_grad():
            for projection, weight in zip(PROJECTIONS, other.weights):
                getattr(module, projection).weight.copy_(weight)

    def data_set(module):
        for projection, weight in zip(PROJECTIONS, other.weights):
            getattr(module, projection).weight.data = weight.t().contiguous().t()

    def assigned(module):
        state = {f"{projection}.weight": weight.clone() for projection, weight in zip(PROJECTIONS, other.weights)}
        module.load_state_dict(state, assign=True)

    def new_parameters(module):
        for projection, weight in zip(PROJECTIONS, other.weights):
            getattr(module, projection).weight = torch.nn.Parameter(weight.clone())

    for change in (copied, under_no_grad, data_set, assigned, new_parameters):
        for compiled in (False, True):
            module = module_of(block, CONTRACT)
            run = torch.compile(module, backend="aot_eager", fullgraph=True) if compiled else module
            require_equal("before", run(block.x), output_of(block, *block.weights))
            change(module)
            require_equal(f"after {change.__name__}", run(block.x), expected)


def test_optimiser_steps_in_place(block):
    module = module_of(block, CONTRACT)
    before = module(block.x)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.5)
    before.backward(block.dy)
    optimiser.step()
    after = module(block.x)
    assert not samebits.compare(after.detach(), before.detach()).equal
    require_equal("after the step", after, output_of(block, *(weight.detach().clone() for weight in module.parameters())))


class Wrapped(torch.nn.Linear):
    """As an adapter does: a class of its own with the same weight."""


def test_what_would_be_bypassed_is_refused(block):
    def wrap(module):
        module.up_proj = Wrapped(48, 112, bias=False)

    def bias(module):
        module.down_proj.bias = torch.nn.Parameter(torch.zeros(48))

    def hook(module):
        module.gate_proj.register_forward_hook(lambda *_: None)

    def pre_hook(module):
        module.gate_proj.register_forward_pre_hook(lambda *_: None)

    def backward_hook(module):
        module.gate_proj.register_full_backward_hook(lambda *_: None)

    def own_forward(module):
        module.gate_proj.forward = lambda x: x

    def parametrisation(module):
        torch.nn.utils.parametrize.register_parametrization(module.up_proj, "weight", torch.nn.Identity())

    for change, message in (
        (wrap, "up_proj is a .*Wrapped, not a plain torch.nn.Linear"),
        (bias, "down_proj has a bias"),
        (hook, "gate_proj has hooks"),
        (pre_hook, "gate_proj has hooks"),
        (backward_hook, "gate_proj has hooks"),
        (own_forward, "gate_proj has a forward of its own"),
        (parametrisation, "up_proj is a .*ParametrizedLinear"),
    ):
        module = module_of(block, CONTRACT)
        change(module)
        with pytest.raises(ValueError, match=message):
            module(block.x)


def test_configurations_and_dtypes(block):
    with pytest.raises(ValueError, match="hidden_act is 'gelu'; the block computes 'silu'"):
        samebits.torch.Qwen3MLP(config(hidden_act="gelu"))
    with pytest.raises(ValueError, match="mlp_bias is set"):
        samebits.torch.Qwen3MLP(config(mlp_bias=True))
    with pytest.raises(ValueError, match="no such contract"):
        samebits.torch.Qwen3MLP(config(), contract="hf")
    with pytest.raises(TypeError, match="^gate is f32, the plan expects bf16$"):
        samebits.torch.Qwen3MLP(config())(block.x)
    with pytest.raises(ValueError, match="w_gate|device"):
        module_of(block, CONTRACT)(block.x[:, :7])


@pytest.mark.parametrize("contract", ["bf16-tree-v1", "sm90-v1", "hf-sm90-v1", "f32-tree-v1,T=block:16"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_sums_over_micro_batches(contract, dtype):
    block = TorchBlock(77)
    module = module_of(block, contract)
    made = samebits.ffn_backward(
        block.x, block.dy, *block.weights, contract=contract, gradient_dtype="bf16" if dtype == torch.bfloat16 else "f32"
    )
    cuts = [0, 32, 48, 77]  # multiples of 16
    dx = []
    with samebits.torch.GradientSum(module, max_tokens=77, tokens=77, micro_batch=32, dtype=dtype) as total:
        for begin, end in zip(cuts, cuts[1:]):
            with torch.no_grad():
                require_equal(
                    "without gradients", module(block.x[begin:end]), output_of(block, *block.weights, contract=contract)[begin:end]
                )
            x = block.x[begin:end].clone().requires_grad_()
            module(x).backward(block.dy[begin:end])
            dx.append(x.grad)
            assert total.tokens == end and module.gate_proj.weight.grad is None
    require_equal("dx", torch.cat(dx), made.dx)
    for name, projection in zip(("d_gate", "d_up", "d_down"), PROJECTIONS):
        weight = getattr(module, projection).weight
        gradient = weight.grad if dtype == torch.bfloat16 else weight.main_grad
        assert gradient.dtype == dtype
        require_equal(name, gradient, getattr(made, name))
    module.zero_grad(set_to_none=True)
    module(block.x).backward(block.dy)  # as ever
    require_equal("d_up", module.up_proj.weight.grad, block.expected(contract)["d_up"])


def test_plain_grad_accumulation_has_other_bits():
    block = TorchBlock(77)
    module = module_of(block, CONTRACT)
    for begin, end in ((0, 32), (32, 64), (64, 77)):
        module(block.x[begin:end]).backward(block.dy[begin:end])
    assert not samebits.compare(module.gate_proj.weight.grad, block.expected(CONTRACT)["d_gate"]).equal


def test_plans_ahead(block):
    module = module_of(block, CONTRACT)
    samebits.torch.clear_cache()
    samebits.torch.reserve(module, 500)
    samebits.torch.reserve(module, 70, training=True)
    kept = {key[-1]: plan.max_tokens for key, plan in samebits.torch.plans._plans.items()}
    assert kept == {False: 512, True: 80}
    module(block.x).backward(block.dy)
    with torch.no_grad():
        module(block.x)
    assert {key[-1]: plan.max_tokens for key, plan in samebits.torch.plans._plans.items()} == kept
    with pytest.raises(ValueError, match="none of the block's modules"):
        samebits.torch.reserve(torch.nn.Linear(2, 2), 4)


def test_sums_that_cannot_be(block):
    module = module_of(block, CONTRACT)
    with pytest.raises(ValueError, match="none of the block's modules"):
        samebits.torch.GradientSum(torch.nn.Linear(2, 2), max_tokens=8, micro_batch=8)
    with pytest.raises(ValueError, match="dtype is torch.float16"):
        samebits.torch.GradientSum(module, max_tokens=8, micro_batch=8, dtype=torch.float16)
    with pytest.raises(ValueError, match="tokens"):
        samebits.torch.GradientSum(module_of(block, "bf16-tree-v1"), max_tokens=8, micro_batch=8)
    with samebits.torch.GradientSum(module, max_tokens=26, micro_batch=13) as total:
        with pytest.raises(ValueError, match="another GradientSum"):
            samebits.torch.GradientSum(module, max_tokens=8, micro_batch=8)
        y = module(block.x)
        total.cancel()
    assert module.gate_proj.weight.grad is None
    with pytest.raises(RuntimeError, match="has ended"):
        y.backward(block.dy)
    with pytest.raises(KeyError):
        with samebits.torch.GradientSum(module, max_tokens=26, micro_batch=13):
            module(block.x).backward(block.dy)
            raise KeyError
    assert module._sum is None and module.gate_proj.weight.grad is None
    module(block.x).backward(block.dy)
    with pytest.raises(ValueError, match="has gradients already"):
        samebits.torch.GradientSum(module, max_tokens=8, micro_batch=8)
