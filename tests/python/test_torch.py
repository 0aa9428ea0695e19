"""PyTorch's CPU tensors, in and out, by DLPack. Skipped where PyTorch is not installed."""

import numpy as np
import pytest
from support import BF16, GRADIENTS, Block, bits

import samebits

torch = pytest.importorskip("torch")


def tensor_of(array):
    return torch.from_numpy(array.view(np.uint16).copy()).view(torch.bfloat16)


def array_of(tensor):
    return tensor.detach().contiguous().view(torch.uint16).numpy().view(BF16)


@pytest.fixture
def block():
    return Block(tokens=12, hidden=48, intermediate=96)


@pytest.mark.parametrize("contract", ["bf16-tree-v1", "hf-sm90-v1"])
def test_tensors(block, contract):
    expected = block.run(contract)
    x, dy, *weights = map(tensor_of, (block.x, block.dy, *block.weights))
    y = samebits.ffn(x, *weights, contract=contract)
    assert isinstance(y, torch.Tensor) and y.dtype == torch.bfloat16 and y.shape == x.shape
    made = {"y": y, **samebits.ffn_backward(x, dy, *weights, contract=contract)._asdict()}
    for name, tensor in made.items():
        assert bits(array_of(tensor)) == bits(expected[name]), name
        assert samebits.digest(tensor) == samebits.digest(expected[name])
    wide = samebits.ffn_backward(x, dy, *weights, contract=contract, gradient_dtype="f32")
    assert wide.d_up.dtype == torch.float32 and samebits.compare(wide.d_up.bfloat16(), made["d_up"]).equal


def test_strides_batches_and_results(block):
    expected = block.run("bf16-tree-v1")
    x, *weights = map(tensor_of, (block.x, *block.weights))
    wide = torch.zeros(12, 100, dtype=torch.bfloat16)
    assert samebits.ffn(x, *(weight.t().contiguous().t() for weight in weights), out=wide[:, 3:51]) is not None
    assert bits(array_of(wide[:, 3:51])) == bits(expected["y"])
    assert samebits.ffn(x.reshape(3, 4, 48).transpose(0, 1), *weights).shape == (4, 3, 48)
    assert bits(array_of(samebits.ffn(x.reshape(3, 4, 48), *weights).reshape(12, 48))) == bits(expected["y"])


def test_parameters_and_described_tensors(block):
    expected = block.run("bf16-tree-v1")
    parameters = [torch.nn.Parameter(tensor_of(weight)) for weight in block.weights]
    x = tensor_of(block.x)
    assert bits(array_of(samebits.ffn(x, *parameters))) == bits(expected["y"])
    y = torch.empty_like(x)
    plan = samebits.Plan("bf16-tree-v1", 48, 96, 12)
    plan.forward(*((t.data_ptr(), *t.shape, *t.stride(), 0, 1, 0) for t in (x, y, *parameters)))
    assert bits(array_of(y)) == bits(expected["y"])


def test_what_is_refused(block):
    x, *weights = map(tensor_of, (block.x, *block.weights))
    with pytest.raises(TypeError, match="^x is f32, the plan expects bf16$"):
        samebits.ffn(x.float(), *weights)
    with pytest.raises(TypeError, match="torch.float64"):
        samebits.ffn(x.double(), *weights)
    with pytest.raises(ValueError, match="^y shares memory with x"):
        samebits.ffn(x, *weights, out=x)
    with pytest.raises(ValueError, match="^y is written to, and has elements that share memory"):
        samebits.ffn(x, *weights, out=x[:1].expand(12, 48))
    with pytest.raises(ValueError, match="device"):
        samebits.ffn(x.to("meta"), *weights)


def test_gradients_are_named(block):
    x, dy, *weights = map(tensor_of, (block.x, block.dy, *block.weights))
    outs = {name: torch.empty_like(weight) for name, weight in zip(GRADIENTS, weights)}
    made = samebits.ffn_backward(x, dy, *weights, **outs)
    assert all(getattr(made, name) is tensor for name, tensor in outs.items())
