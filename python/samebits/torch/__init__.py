"""samebits in PyTorch: operators, a drop-in Qwen3MLP, and parallel layouts over process groups."""

from . import operators as _operators  # noqa: F401: registers them
from . import sharded_operators as _sharded_operators  # noqa: F401: registers them
from .accumulate import GradientSum
from .functional import DEFAULT_CONTRACT, ffn
from .mlp import ContractMLP, Qwen3MLP
from .parallel import gather_state_dict, parallelize, refresh, set_shards
from .plans import clear_cache
from .replace import replace_mlp, restore_mlp
from .reserve import reserve

__all__ = [
    "DEFAULT_CONTRACT",
    "ContractMLP",
    "GradientSum",
    "Qwen3MLP",
    "clear_cache",
    "ffn",
    "gather_state_dict",
    "parallelize",
    "refresh",
    "replace_mlp",
    "reserve",
    "restore_mlp",
    "set_shards",
]
