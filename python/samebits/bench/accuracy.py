"""Experiment 3: the error against float64, of every contract and of PyTorch in three formats. It says nothing about bits."""

from typing import Any, Dict, List, Tuple

import torch

from .. import Refused
from ..torch import Qwen3MLP
from .baseline import baseline_of
from .latency import theirs_config
from .operands import Operands

TENSORS = ("output", "d_hidden", "d_gate", "d_up", "d_down")


def accuracy(contracts: List[str], operands: Operands) -> Dict[str, Dict[str, Dict[str, float]]]:
    """By contract or format, by tensor: rel_l2, max_abs, mean_abs. Against the expression in float64 on the same bfloat16 operands."""
    hidden, intermediate = operands.x.shape[1], operands.weights[0].shape[0]

    def of_baseline(dtype: torch.dtype) -> List[torch.Tensor]:
        module, _ = baseline_of(hidden, intermediate, operands.weights, dtype)
        return step(module, operands, dtype)

    exact = of_baseline(torch.float64)
    table = {}
    for contract in contracts:
        module = Qwen3MLP(theirs_config(hidden, intermediate), contract=contract).to(operands.x.device, torch.bfloat16)
        state = zip(("gate_proj.weight", "up_proj.weight", "down_proj.weight"), operands.weights)
        module.load_state_dict(dict(state))
        try:
            table[contract] = errors(step(module, operands, torch.bfloat16), exact)
        except Refused:  # a contract that this device cannot run
            continue
    for label, dtype in (("BF16", torch.bfloat16), ("FP16", torch.float16), ("FP32", torch.float32)):
        made = of_baseline(dtype)
        table[f"Hugging Face, {label}"] = errors(made, exact)
        if label == "FP16":
            half = made
    table["Hugging Face, FP16 against FP32"] = errors(half, made)
    return table


def step(module: torch.nn.Module, operands: Operands, dtype: torch.dtype) -> List[torch.Tensor]:
    """y, dx and the gradients of gate, up and down."""
    x = operands.x.to(dtype).requires_grad_()
    y = module(x)
    wanted = [x, *(getattr(module, name).weight for name in ("gate_proj", "up_proj", "down_proj"))]
    return [y.detach(), *torch.autograd.grad(y, wanted, operands.dy.to(dtype))]


def errors(made: List[torch.Tensor], exact: List[torch.Tensor]) -> Dict[str, Dict[str, float]]:
    return {name: dict(zip(("rel_l2", "max_abs", "mean_abs"), _error(a, b))) for name, a, b in zip(TENSORS, made, exact)}


def _error(made: torch.Tensor, exact: torch.Tensor) -> Tuple[float, float, float]:
    difference = made.double() - exact.double()
    norm: Any = exact.double().norm()
    return float(difference.norm() / norm), float(difference.abs().max()), float(difference.abs().mean())
