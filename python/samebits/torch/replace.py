"""Swapping the MLPs of a Hugging Face model for the block, in place, and back."""

import functools
from typing import Any, Dict, Iterator, List, Sequence, Tuple, Type, Union

from torch import nn

from .._core import Contract
from .functional import DEFAULT_CONTRACT, contract_text
from .mlp import PROJECTIONS, ContractMLP, is_silu, projection_problem

# down_proj(act_fn(gate_proj(x)) * up_proj(x)) and nothing else, in every release of transformers looked at.
KNOWN = ("Qwen3MLP", "Qwen2MLP", "LlamaMLP", "MistralMLP")


def replace_mlp(
    model: nn.Module,
    contract: Union[Contract, str] = DEFAULT_CONTRACT,
    *,
    recompute: bool = False,
    classes: Sequence[Type[nn.Module]] = (),
) -> List[str]:
    """Every Qwen3MLP, Qwen2MLP, LlamaMLP and MistralMLP of transformers in `model` computes under the contract from now on.

    Modules stay the objects that they are, with their parameters, hooks and names; only what their forward does changes. `restore_mlp`
    gives it back. Under the default, `hf-sm90-v1`, a model on a Hopper GPU keeps the bits that it had wherever cuBLAS summed in one chain
    (docs/numerics.md), and has them at every number of tokens. classes: further classes whose forward is the same expression.

    Returns the names of the modules. ValueError, with nothing changed, where there is none, where one has biases, another activation, or
    a projection that is wrapped (LoRA, quantisation, parametrisations, hooks); ValueError for a text that is no contract.
    """
    text = contract_text(contract)
    found = list(_gated_mlps(model, tuple(classes)))
    if not found:
        raise ValueError(f"no MLP to replace in {type(model).__name__}: looked for {', '.join(KNOWN)} of transformers")
    problems = [f"{name}: {problem}" for name, module in found for problem in _problems(module)]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ValueError(f"nothing was replaced: {problems[0]}{more}")
    for _, module in found:
        if not isinstance(module, ContractMLP):
            module.__class__ = _class_for(type(module))
        module.contract, module.recompute = text, recompute
    return [name for name, _ in found]


def restore_mlp(model: nn.Module) -> List[str]:
    """Undoes `replace_mlp`. Returns the names of the modules. ValueError where one was parallelized: its weights are a shard."""
    found = [(name, module) for name, module in model.named_modules() if type(module) in _originals]
    for name, module in found:
        if module._sharded is not None:
            raise ValueError(f"{name} holds a shard of its weights, which the module before cannot compute with")
    for _, module in found:
        module.__class__ = _originals[type(module)]
        for attribute in ("contract", "recompute"):
            del module.__dict__[attribute]
    return [name for name, _ in found]


_originals: Dict[Type[nn.Module], Type[nn.Module]] = {}


@functools.lru_cache(maxsize=None)
def _class_for(original: Type[nn.Module]) -> Type[nn.Module]:
    """The original with the block's forward in front of its own."""
    made = type(f"Samebits{original.__name__}", (ContractMLP, original), {"__module__": __name__, "__doc__": ContractMLP.__doc__})
    _originals[made] = original
    return made


def _gated_mlps(model: nn.Module, classes: Tuple[Type[nn.Module], ...]) -> Iterator[Tuple[str, Any]]:
    for name, module in model.named_modules():
        kind = type(module)
        known = kind.__name__ in KNOWN and kind.__module__.startswith(("transformers.", "transformers_modules."))
        if known or kind in _originals or kind in classes:
            yield name or type(module).__name__, module


def _problems(module: Any) -> Iterator[str]:
    if isinstance(module, ContractMLP) and module._sharded is not None:
        yield "it is parallelized, under the contract that it has"
    if not isinstance(module, ContractMLP) and "forward" in module.__dict__:
        yield "its forward was replaced by another (an offloading hook, for instance), which would stay in the way"
    for name in PROJECTIONS:
        projection = getattr(module, name, None)
        problem = "is missing" if projection is None else projection_problem(projection)
        if problem:
            yield f"{name} {problem}"
    if not is_silu(getattr(module, "act_fn", None)):
        yield f"its activation is {getattr(module, 'act_fn', None)}; the block computes SiLU"
