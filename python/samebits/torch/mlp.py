"""Hugging Face's gated MLP, computed under a contract."""

from typing import Any, Dict, NoReturn, Optional, Union

import torch
from torch import nn

from .._core import Contract
from .functional import DEFAULT_CONTRACT, contract_text, ffn

PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


class ContractMLP(nn.Module):
    """Forward of a module with gate_proj, up_proj and down_proj, torch.nn.Linear without bias, by the block under `self.contract`.

    The weights are read anew in every call: whatever a program does to them (copy_, `.data =`, load_state_dict(assign=True), an
    optimiser's steps in place) is in force from the next call on. A projection that is more than its weight (LoRA, hooks, quantisation)
    would be bypassed, so the call raises ValueError.
    """

    contract: str  # a preset's name, or a canonical string
    recompute: bool = False  # keep nothing for backward, compute the forward a second time
    _sharded: Optional[Any] = None  # set by `parallelize`
    _sum: Optional[Any] = None  # set by `GradientSum`

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up, down = self._weight("gate_proj"), self._weight("up_proj"), self._weight("down_proj")
        if self._sum is not None:
            return self._sum._ffn(self, x, gate, up, down)
        if self._sharded is not None:
            return self._sharded.ffn(x, gate, up, down, self.contract, self.recompute)
        return ffn(x, gate, up, down, self.contract, self.recompute)

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *arguments: Any) -> None:
        """Called before the projections load theirs, with a copy of what is loaded: whole weights are cut to this rank's shard."""
        if self._sharded is not None:
            for name in PROJECTIONS:
                key = f"{prefix}{name}.weight"
                if key in state_dict:
                    state_dict[key] = self._sharded.shard_of(key, name, state_dict[key])
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def _weight(self, name: str) -> torch.Tensor:
        linear: Any = self._modules[name]
        parameters = linear._parameters  # not by attribute: torch.nn.Module looks those up slowly
        weight = parameters.get("weight")
        if (
            type(linear) is nn.Linear
            and type(weight) in _PLAIN
            and parameters["bias"] is None
            and not (linear._forward_hooks or linear._forward_pre_hooks or linear._backward_hooks or linear._backward_pre_hooks)
            and "forward" not in linear.__dict__
        ):
            return weight
        if projection_problem(linear):
            refuse_projection(name, linear)
        return linear.weight  # a plain attribute, as some wrappers set it


_PLAIN = (nn.Parameter, torch.Tensor)


def projection_problem(linear: Any) -> str:
    """Why the block cannot stand for the projection; empty where it can."""
    if type(linear) is not nn.Linear:
        return f"is a {type(linear).__module__}.{type(linear).__qualname__}, not a plain torch.nn.Linear"
    if linear.bias is not None:
        return "has a bias, and the block has none"
    if linear._forward_hooks or linear._forward_pre_hooks or linear._backward_hooks or linear._backward_pre_hooks:
        return "has hooks, which would never be called"
    if "forward" in linear.__dict__:
        return "has a forward of its own, which would never be called"
    if type(linear.weight) not in _PLAIN:
        return f"has a weight of type {type(linear.weight).__module__}.{type(linear.weight).__qualname__}, not a plain tensor"
    return ""


def refuse_projection(name: str, linear: Any) -> NoReturn:
    raise ValueError(
        f"{name} {projection_problem(linear)}: computing with a plain weight alone would bypass that. Merge or remove it, or take "
        f"samebits out (restore_mlp)"
    )


def is_silu(activation: Any) -> bool:
    """torch.nn.SiLU, or what transformers calls "silu" and "swish"."""
    return activation is nn.functional.silu or type(activation).__name__ in ("SiLU", "SiLUActivation")


class Qwen3MLP(ContractMLP):
    """A drop-in for `transformers.models.qwen3.modeling_qwen3.Qwen3MLP`: the same constructor, parameter names and state dict.

    config: anything with hidden_size, intermediate_size and hidden_act, which is "silu". contract: a preset's name, a contract's text or a
    Contract. recompute: see `ffn`. Parameters are made as torch.nn.Linear makes them, of torch's default dtype: `.to(torch.bfloat16)`
    before the first call.

    ValueError for another activation or biases.
    """

    def __init__(self, config: Any, *, contract: Union[Contract, str] = DEFAULT_CONTRACT, recompute: bool = False) -> None:
        super().__init__()
        activation = getattr(config, "hidden_act", "silu")
        if activation not in ("silu", "swish"):
            raise ValueError(f"hidden_act is {activation!r}; the block computes 'silu'")
        if getattr(config, "mlp_bias", False):
            raise ValueError("mlp_bias is set; the block has no biases")
        self.config = config
        self.hidden_size = config.hidden_size
        self.intermediate_size = config.intermediate_size
        self.gate_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.up_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.down_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=False)
        self.act_fn = nn.SiLU()
        self.contract = contract_text(contract)
        self.recompute = recompute

    def extra_repr(self) -> str:
        return f"contract={self.contract!r}"
