"""What the tests with PyTorch share: tensors of seeded values, and equality that says where bits differ."""

import types
from typing import Sequence

import numpy as np
import torch
from support import BF16, Block

import samebits
import samebits.torch


def tensor_of(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array.view(np.uint16).copy()).view(torch.bfloat16)


def array_of(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().contiguous().view(torch.uint16).numpy().view(BF16)


def require_equal(name: str, made, expected) -> None:
    """The same bits, or the first coordinate that differs with both values in hex, and the count."""
    difference = samebits.compare(made.detach().contiguous(), expected.detach().contiguous())
    assert difference.equal, f"{name}: {difference}"


class TorchBlock:
    """Seeded operands as tensors, and what the NumPy path of the package makes of them."""

    def __init__(self, tokens: int = 13, hidden: int = 48, intermediate: int = 112, seed: int = 0) -> None:
        self.block = Block(tokens, hidden, intermediate, seed)
        self.x, self.dy = tensor_of(self.block.x), tensor_of(self.block.dy)
        self.weights = [tensor_of(weight) for weight in self.block.weights]

    def to(self, device: str) -> "TorchBlock":
        self.x, self.dy = self.x.to(device), self.dy.to(device)
        self.weights = [weight.to(device) for weight in self.weights]
        return self

    def expected(self, contract: str):
        return {name: tensor_of(array) for name, array in self.block.run(contract).items()}

    def operands(self, wanted: Sequence[bool] = (True,) * 4):
        """Leaves of autograd: x, gate, up, down."""
        return [tensor.clone().requires_grad_(want) for tensor, want in zip((self.x, *self.weights), wanted)]


def config(hidden: int = 48, intermediate: int = 112, **more):
    return types.SimpleNamespace(**{"hidden_size": hidden, "intermediate_size": intermediate, "hidden_act": "silu", **more})


def module_of(block: TorchBlock, contract: str) -> samebits.torch.Qwen3MLP:
    module = samebits.torch.Qwen3MLP(config(block.block.hidden, block.block.intermediate), contract=contract).to(block.x)
    names = ("gate_proj.weight", "up_proj.weight", "down_proj.weight")
    module.load_state_dict(dict(zip(names, block.weights)))
    return module
