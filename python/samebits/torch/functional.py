"""The block as a function of tensors, with gradients."""

from typing import Union

import torch

from .._core import Contract
from . import operators

DEFAULT_CONTRACT = "hf-sm90-v1"


def contract_text(contract: Union[Contract, str]) -> str:
    """The text that operators take: a preset's name, else the canonical string. ValueError where it is no contract."""
    return (contract if isinstance(contract, Contract) else Contract(contract)).name


def ffn(
    x: torch.Tensor,
    w_gate: torch.Tensor,
    w_up: torch.Tensor,
    w_down: torch.Tensor,
    contract: str = DEFAULT_CONTRACT,
    recompute: bool = False,
) -> torch.Tensor:
    """y = w_down(silu(w_gate(x)) * w_up(x)), forward and backward with the bits of the contract.

    x: [..., H]; w_gate, w_up: [I, H]; w_down: [H, I]; bfloat16, of any strides, all on one device. Returns y, like x in shape, packed.
    contract: a preset's name or a contract's text, as a string: it becomes a constant of a traced graph.

    Where gradients are recorded, what backward reads (3 x tokens x I x 2 bytes) is kept; recompute=True keeps nothing and computes the
    forward a second time. Weight gradients are summed over all tokens of the call. The current stream is used, nothing waits for the
    device, and calls can be compiled and captured.

    TypeError for another dtype, ValueError for other shapes and devices, Refused for a contract that the device cannot run.
    """
    if recompute or not torch.is_grad_enabled():
        return operators.ffn_operator(x, w_gate, w_up, w_down, contract)
    if x.requires_grad or w_gate.requires_grad or w_up.requires_grad or w_down.requires_grad:
        return operators.ffn_saving_operator(x, w_gate, w_up, w_down, contract)[0]
    return operators.ffn_operator(x, w_gate, w_up, w_down, contract)
