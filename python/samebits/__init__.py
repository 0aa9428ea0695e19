"""samebits: the Qwen3 feed-forward block (bias-free SwiGLU MLP), forward and backward, with the same bits on every layout,
batch, device and engine that share a contract.

    y = samebits.ffn(x, w_gate, w_up, w_down, contract="sm90-v1")

Arrays are anything that speaks DLPack (PyTorch, CuPy, JAX), or NumPy arrays of ml_dtypes.bfloat16. They are used where they lie.
"""

from ._core import (
    CallbackTransport,
    Contract,
    Difference,
    EnvironmentProblem,
    GradientAccumulator,
    Plan,
    RankError,
    RankShard,
    Refused,
    Transport,
    __version__,
    best_isa,
    contiguous_shards,
    contract_presets,
    cuda_status,
    hip_status,
    local_transports,
    zigzag_shards,
)
from .block import Gradients, ffn, ffn_backward
from .plans import clear_cache
from .tensors import compare, digest, seeded
from .weights import slice_weights

__all__ = [
    "CallbackTransport",
    "Contract",
    "Difference",
    "EnvironmentProblem",
    "GradientAccumulator",
    "Gradients",
    "Plan",
    "RankError",
    "RankShard",
    "Refused",
    "Transport",
    "__version__",
    "best_isa",
    "clear_cache",
    "compare",
    "contiguous_shards",
    "contract_presets",
    "cuda_status",
    "digest",
    "ffn",
    "ffn_backward",
    "hip_status",
    "local_transports",
    "seeded",
    "slice_weights",
    "zigzag_shards",
]
