"""Hugging Face's Qwen3MLP, unmodified; the same expression in torch.nn where transformers is not installed."""

import types
from typing import List, Tuple

import torch
from torch import nn


class _Expression(nn.Module):
    """down_proj(silu(gate_proj(x)) * up_proj(x)), as Qwen3MLP writes it."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


def baseline_of(hidden: int, intermediate: int, weights: List[torch.Tensor], dtype: torch.dtype) -> Tuple[nn.Module, str]:
    """The module with these weights, and what it is called in reports."""
    module: nn.Module
    try:
        import transformers
        from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

        module = Qwen3MLP(types.SimpleNamespace(hidden_size=hidden, intermediate_size=intermediate, hidden_act="silu"))
        name = f"Hugging Face Qwen3MLP (transformers {transformers.__version__})"
    except ImportError:
        module, name = _Expression(hidden, intermediate), "torch.nn, Qwen3MLP's expression (transformers is not installed)"
    module = module.to(weights[0].device, dtype)
    with torch.no_grad():
        for projection, weight in zip(("gate_proj", "up_proj", "down_proj"), weights):
            getattr(module, projection).weight.copy_(weight)
    return module, name
