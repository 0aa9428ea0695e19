"""Plans ahead of the first call."""

from torch import nn

from .mlp import ContractMLP
from .plans import current_stream, plan_for


def reserve(module: nn.Module, tokens: int, *, training: bool = False) -> None:
    """Makes the plans that calls of up to `tokens` tokens of the block's modules in `module` use, on the current stream.

    Without it a call of more tokens than any before makes a larger plan first. tokens: of a call, and of the whole sequence where modules
    are parallelized, for which it is collective. training: for calls that record gradients; else for those that do not.

    ValueError where `module` holds none of the block's modules.
    """
    found = [part for part in module.modules() if isinstance(part, ContractMLP)]
    if not found:
        raise ValueError(f"{type(module).__name__} holds none of the block's modules")
    for part in found:
        if part._sharded is not None:
            part._sharded.block.reserve(training, tokens)
            continue
        weight = part._weight("gate_proj")
        intermediate, hidden = weight.shape
        device = weight.get_device()
        plan_for(part.contract, hidden, intermediate, device, current_stream(device), training, tokens)
