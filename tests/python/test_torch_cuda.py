"""The operators and modules on a Hopper GPU: the CPU engine's bits, compiled and captured. Skipped where there is none.

With SAMEBITS_REQUIRE_CUDA set, a machine without one fails.
"""

import os

import pytest

torch = pytest.importorskip("torch")

from support import HIDDEN, INTERMEDIATE, TOKENS, goldens  # noqa: E402
from torch_support import TorchBlock, module_of, require_equal  # noqa: E402

import samebits  # noqa: E402
import samebits.torch  # noqa: E402
from samebits.torch import plans  # noqa: E402

status = samebits.cuda_status()
usable = status["built"] and not status["problem"] and torch.cuda.is_available()
if not usable and not os.environ.get("SAMEBITS_REQUIRE_CUDA"):
    pytest.skip(f"no CUDA here: {status['problem'] or 'PyTorch sees no device'}", allow_module_level=True)

CONTRACTS = ["bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1"]
NAMES = ("dx", "d_gate", "d_up", "d_down")


def cuda_block(*sizes, **more):
    """Operands on the device; what is expected of them is computed on the CPU."""
    return TorchBlock(*sizes, **more).to("cuda")


def equal(name, made, expected):
    require_equal(name, made.cpu(), expected.cpu())


def test_a_device_is_there():
    assert usable, status


@pytest.mark.parametrize("contract", CONTRACTS)
def test_golden_digests(contract):
    block, golden = cuda_block(TOKENS, HIDDEN, INTERMEDIATE), goldens()[contract]
    operands = block.operands()
    y = samebits.torch.ffn(*operands, contract)
    y.backward(block.dy)
    made = {"y": y, **{name: operand.grad for name, operand in zip(NAMES, operands)}}
    assert {name: samebits.digest(tensor) for name, tensor in made.items()} == {name: golden[name] for name in made}


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad):
    block = cuda_block()
    operands = block.operands((requires_grad,) * 4)
    for operator in (torch.ops.samebits.ffn, torch.ops.samebits.ffn_saving):
        torch.library.opcheck(operator, (*operands, "sm90-v1"))
    _, *saved = torch.ops.samebits.ffn_saving(block.x, *block.weights, "sm90-v1")
    torch.library.opcheck(torch.ops.samebits.ffn_backward, (block.x, block.dy, *block.weights, *saved, "sm90-v1", True, True))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("tokens", [1, 13, 64, 65, 200])
@pytest.mark.parametrize("contract", CONTRACTS)
def test_gradients(contract, tokens, recompute):
    block = cuda_block(tokens, 136, 328)
    expected = block.expected(contract)
    operands = block.operands()
    y = samebits.torch.ffn(*operands, contract, recompute)
    y.backward(block.dy)
    equal("y", y, expected["y"])
    for name, operand in zip(NAMES, operands):
        equal(name, operand.grad, expected[name])


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compile(mode):
    block = cuda_block(24, 128, 320)
    expected = block.expected("sm90-v1")
    compiled = torch.compile(lambda *operands: samebits.torch.ffn(*operands, "sm90-v1").neg(), fullgraph=True, mode=mode)
    for _ in range(4):  # the first calls warm up, later ones are replays
        operands = block.operands()
        y = compiled(*operands)
        equal("y", -y.detach().clone(), expected["y"])
        y.backward(-block.dy)
        for name, operand in zip(NAMES, operands):
            equal(name, operand.grad.clone(), expected[name])


def captured(call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return graph, result


@pytest.mark.parametrize("contract", ["sm90-v1", "hf-sm90-v1", "bf16-tree-v1"])
def test_graph_of_forward_and_backward(contract):
    block, other = cuda_block(24, 128, 320), cuda_block(24, 128, 320, seed=4)
    operands = block.operands()

    def step():
        y = samebits.torch.ffn(*operands, contract)
        return (y, *torch.autograd.grad(y, operands, block.dy))

    graph, results = captured(step)
    for source in (block, other):  # operands that change in place are in force
        expected = source.expected(contract)
        with torch.no_grad():
            block.dy.copy_(source.dy)
            for operand, tensor in zip(operands, (source.x, *source.weights)):
                operand.copy_(tensor)
        graph.replay()
        torch.cuda.synchronize()
        for name, result in zip(("y", *NAMES), results):
            equal(name, result, expected[name])


def test_graph_without_a_call_before():
    samebits.torch.clear_cache(captured=True)
    block = cuda_block(8, 64, 208)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):  # the plan is made under the capture
        y = samebits.torch.ffn(block.x, *block.weights, "sm90-v1")
    graph.replay()
    torch.cuda.synchronize()
    equal("y", y, block.expected("sm90-v1")["y"])


def test_graphs_beside_each_other_and_beside_calls():
    blocks = [cuda_block(40, 256, 640, seed=seed) for seed in range(3)]
    expected = [block.expected("sm90-v1")["y"] for block in blocks]
    with torch.no_grad():
        graphs = [captured(lambda block=block: samebits.torch.ffn(block.x, *block.weights, "sm90-v1")) for block in blocks]
        streams = [torch.cuda.Stream() for _ in blocks]
        torch.cuda.synchronize()
        for _ in range(20):
            for stream, (graph, _) in zip(streams, graphs):
                with torch.cuda.stream(stream):
                    graph.replay()
            eager = samebits.torch.ffn(blocks[0].x, *blocks[0].weights, "sm90-v1")
        torch.cuda.synchronize()
    for (_, y), wanted in zip(graphs, expected):
        equal("a graph's y", y, wanted)
    equal("an eager y", eager, expected[0])
    assert plans.cached_plans()[1] >= 3


def test_streams():
    block = cuda_block(40, 256, 640)
    expected = block.expected("sm90-v1")["y"]
    made = []
    torch.cuda.synchronize()
    for _ in range(12):
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            made.append(samebits.torch.ffn(block.x, *block.weights, "sm90-v1"))
    torch.cuda.synchronize()
    for y in made:
        equal("y", y, expected)
    assert plans.cached_plans()[0] <= plans.MOST


def test_module_in_a_graph_sees_its_weights_change():
    block, other = cuda_block(), cuda_block(seed=7)
    module = module_of(block, "sm90-v1")
    with torch.no_grad():
        graph, y = captured(lambda: module(block.x))
        for weight, value in zip((module.gate_proj.weight, module.up_proj.weight, module.down_proj.weight), other.weights):
            weight.copy_(value)
        graph.replay()
        torch.cuda.synchronize()
        equal("after a change", y, samebits.torch.ffn(block.x, *other.weights, "sm90-v1"))


def test_sums_over_micro_batches():
    block = cuda_block(77, 64, 208)
    module = module_of(block, "sm90-v1")
    with samebits.torch.GradientSum(module, max_tokens=77, micro_batch=32, dtype=torch.float32):
        for begin, end in ((0, 32), (32, 64), (64, 77)):
            module(block.x[begin:end]).backward(block.dy[begin:end])
    expected = samebits.ffn_backward(
        block.x.cpu(), block.dy.cpu(), *(weight.cpu() for weight in block.weights), contract="sm90-v1", gradient_dtype="f32"
    )
    equal("d_gate", module.gate_proj.weight.main_grad, expected.d_gate)
    equal("d_down", module.down_proj.weight.main_grad, expected.d_down)


def test_operands_of_two_devices_are_refused():
    block = cuda_block()
    with pytest.raises(ValueError, match="up lies on another device"):
        samebits.torch.ffn(block.x, block.weights[0], block.weights[1].cpu(), block.weights[2], "sm90-v1")
    with pytest.raises(samebits.Refused):
        samebits.torch.ffn(block.x, *block.weights, "gfx942-v1")


def test_state_dict_of_hugging_face():
    transformers = pytest.importorskip("transformers")
    from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

    torch.manual_seed(0)
    configuration = transformers.Qwen3Config(hidden_size=1024, intermediate_size=3072)
    theirs = Qwen3MLP(configuration).cuda().bfloat16()
    ours = samebits.torch.Qwen3MLP(configuration).cuda().bfloat16()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2048, 1024, device="cuda").bfloat16()
    dy = torch.randn_like(x)
    results = []
    for module in (theirs, ours):
        leaf = x.clone().requires_grad_()
        module(leaf).backward(dy)
        results.append((module(leaf).detach(), leaf.grad, *(weight.grad for weight in module.parameters())))
    for name, mine, stock in zip(("y", *NAMES), results[1], results[0]):
        equal(f"{name} of 2048 tokens against the unmodified module", mine, stock)
