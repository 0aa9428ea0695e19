"""What the operators of a block have in common in PyTorch's registry, whether a rank is alone or one of a layout.

Three operators: a forward, one that also returns what a backward reads (G, U and A), and the gradients. The last operand of the first two
says how: a contract, or a layout.
"""

from typing import Any, Callable, NoReturn, Sequence, Tuple

import torch
from torch import library as registry

Tensor = torch.Tensor
Library = registry.Library

# Tensors that the dispatcher would say of that nobody has implemented the operator for them.
_REFUSED = ("SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "QuantizedCPU", "QuantizedCUDA", "MkldnnCPU", "XPU", "MPS", "HPU")


def register_block(
    owner: Library, forward: str, operators: Sequence[Tuple[Callable[..., Any], Callable[..., Any]]], backward: Callable[..., Any]
) -> None:
    """The kernel and the fake of `forward`, of `forward`_saving and of `forward`_backward; `backward` is autograd's, of the first two."""
    names = (forward, f"{forward}_saving", f"{forward}_backward")
    for name, (kernel, fake) in zip(names, operators):
        for key in ("CPU", "CUDA"):
            owner.impl(name, kernel, key)
        for key in _REFUSED:
            owner.impl(name, _refuse_tensors, key)
        registry.register_fake(f"samebits::{name}", fake, lib=owner)
    registry.register_autograd(f"samebits::{names[0]}", backward, setup_context=_save_operands, lib=owner)
    registry.register_autograd(f"samebits::{names[1]}", backward, setup_context=_save_all, lib=owner)
    registry.register_autograd(f"samebits::{names[2]}", _no_second_derivative, lib=owner)


def _refuse_tensors(*arguments: Any) -> NoReturn:
    told = next(
        f"{tensor.device.type}, {str(tensor.layout).replace('torch.', '')}, {str(tensor.dtype).replace('torch.', '')}"
        for tensor in arguments
        if isinstance(tensor, Tensor)
        and (tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type not in ("cpu", "cuda"))
    )
    raise ValueError(f"an operand is a tensor of another kind ({told}): the block takes dense ones on cpu and cuda")


def _save_operands(ctx: Any, inputs: Tuple[Any, ...], output: Tensor) -> None:
    *operands, ctx.how = inputs
    ctx.save_for_backward(*operands)


def _save_all(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, ...]) -> None:
    *operands, ctx.how = inputs
    ctx.save_for_backward(*operands, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _no_second_derivative(ctx: Any, *gradients: Tensor) -> None:
    raise RuntimeError("samebits computes first derivatives: a gradient of its gradients is not defined by a contract")
