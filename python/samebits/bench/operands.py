"""Seeded operands of a block as tensors on a device."""

from typing import Dict, List, NamedTuple, Tuple

import torch

from .. import seeded

SHAPES: Dict[str, Tuple[int, int]] = {
    "qwen3-0.6b": (1024, 3072),
    "qwen3-1.7b": (2048, 6144),
    "qwen3-4b": (2560, 9728),
    "qwen3-8b": (4096, 12288),
    "qwen3-14b": (5120, 17408),
    "qwen3-32b": (5120, 25600),
}


def shape_of(text: str) -> Tuple[int, int]:
    """(H, I) of a name or of HxI. ValueError for neither."""
    if text in SHAPES:
        return SHAPES[text]
    sizes = text.split("x")
    if len(sizes) != 2 or not all(size.isdigit() and int(size) > 0 for size in sizes):
        raise ValueError(f"the shape is {text!r}; it is HIDDENxINTERMEDIATE or one of {', '.join(SHAPES)}")
    return int(sizes[0]), int(sizes[1])


class Operands(NamedTuple):
    """x, dy: [tokens, H]; weights: gate and up [I, H], down [H, I]. bfloat16."""

    x: torch.Tensor
    dy: torch.Tensor
    weights: List[torch.Tensor]


def operands_of(tokens: int, hidden: int, intermediate: int, device: str, seed: int = 0) -> Operands:
    def tensor(name: str, rows: int, cols: int) -> torch.Tensor:
        out = torch.empty(rows, cols, dtype=torch.bfloat16)
        return seeded(name, rows, cols, seed, out=out).to(device)

    x, dy = tensor("x", tokens, hidden), tensor("dy", tokens, hidden)
    return Operands(x, dy, [tensor("gate", intermediate, hidden), tensor("up", intermediate, hidden), tensor("down", hidden, intermediate)])
