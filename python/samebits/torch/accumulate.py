"""Weight gradients over micro-batches in the contract's token tree: written once, instead of added up in `.grad`."""

from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type

import torch
from torch import nn

from .._core import GradientAccumulator, Plan
from .mlp import PROJECTIONS, ContractMLP
from .operators import described_saved
from .plans import current_stream, rounded_tokens
from .tensors import described, rows_of

Tensor = torch.Tensor
GRADIENTS = ("d_gate", "d_up", "d_down")


class GradientSum:
    """The weight gradients of the block's modules in `model`, over all backward passes until `finish`.

        with samebits.torch.GradientSum(model, max_tokens=65536, micro_batch=8192):
            for batch in batches:
                loss(model, batch).backward()
        optimizer.step()

    They are the bits of one backward over all tokens, in the order of the passes. While it is open those modules leave `.grad` alone; all
    other parameters are as ever. `finish` (the end of the with block) writes

    - dtype=torch.bfloat16: `.grad`, which has to be None before: .grad += would add outside the contract;
    - dtype=torch.float32: `.main_grad`, where Megatron looks for it.

    max_tokens: of all passes together, on all ranks. tokens: how many there will be, exactly; contracts whose token tree depends on it
    (bf16-tree-v1) need it. micro_batch: the most tokens of one pass, on all ranks. Every forward that records gradients is followed by
    its backward, in the order of the forwards. Eager only: not under torch.compile. Collective where modules are parallelized.

    ValueError where gradients are there already, where there is none of the block's modules, or for numbers that do not fit.
    """

    def __init__(
        self, model: nn.Module, *, max_tokens: int, micro_batch: int, tokens: Optional[int] = None, dtype: torch.dtype = torch.bfloat16
    ) -> None:
        if dtype not in (torch.bfloat16, torch.float32):
            raise ValueError(f"dtype is {dtype}; it is torch.bfloat16 or torch.float32")
        self.dtype, self._max_tokens, self._tokens = dtype, max_tokens, tokens
        self._micro_batch = rounded_tokens(micro_batch)
        found = [(name or type(part).__name__, part) for name, part in model.named_modules() if isinstance(part, ContractMLP)]
        self._modules: List[Any] = [part for _, part in found if all(_weight(part, name).requires_grad for name in PROJECTIONS)]
        if not self._modules:
            raise ValueError(f"{type(model).__name__} holds none of the block's modules with weights that require gradients")
        for name, part in found:
            if part._sum is not None:
                raise ValueError(f"{name} is in another GradientSum that has not ended")
            if any(self._old(_weight(part, projection)) is not None for projection in PROJECTIONS):
                raise ValueError(
                    f"{name} has gradients already, which would be added outside the contract: zero_grad(set_to_none=True) first"
                )
        self._plans: Dict[Tuple[Any, ...], Plan] = {}
        self._sums = {id(part): GradientAccumulator(self._plan(part), max_tokens, tokens=tokens) for part in self._modules}
        self._open = True
        for part in self._modules:
            part._sum = self

    @property
    def tokens(self) -> int:
        """Added so far, by the module that has most."""
        return max(sum_.tokens for sum_ in self._sums.values())

    def finish(self) -> None:
        """Writes the gradients and ends it. ValueError where tokens are missing; nothing is written then."""
        made = []
        for part in self._modules:
            weights = [_weight(part, name) for name in PROJECTIONS]
            outs = [torch.empty(weight.shape, dtype=self.dtype, device=weight.device) for weight in weights]
            stream = current_stream(weights[0].get_device())
            self._sums[id(part)].finish(*(described(name, out) for name, out in zip(GRADIENTS, outs)), stream=stream)
            made.append((weights, outs))
        for weights, outs in made:
            for weight, out in zip(weights, outs):
                if self.dtype == torch.float32:
                    weight.main_grad = out  # type: ignore[attr-defined]
                else:
                    weight.grad = out
        self.cancel()

    def cancel(self) -> None:
        """Ends it; what was added is forgotten."""
        if self._open:
            for part in self._modules:
                part._sum = None
        self._open = False

    def __enter__(self) -> "GradientSum":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if not self._open:
            return
        if kind is not None:
            self.cancel()
            return
        try:
            self.finish()
        finally:
            self.cancel()

    def _old(self, weight: Tensor) -> Optional[Tensor]:
        return weight.grad if self.dtype == torch.bfloat16 else None

    def _plan(self, part: Any) -> Plan:
        """Of the module's shape: a sum belongs to one plan, the sums of all layers to the same."""
        weight = _weight(part, "gate_proj")
        if part._sharded is not None:
            block = part._sharded.block
            key: Tuple[Any, ...] = (block.name,)
            if key not in self._plans:
                self._plans[key] = block.make_plan(True, self._micro_batch, self._micro_batch)
            return self._plans[key]
        intermediate, hidden = weight.shape
        key = (part.contract, hidden, intermediate, weight.device)
        if key not in self._plans:
            where = {"device": "cpu", "threads": torch.get_num_threads()} if weight.device.type == "cpu" else {"device": str(weight.device)}
            self._plans[key] = Plan(part.contract, hidden, intermediate, self._micro_batch, own_saved=False, **where)
        return self._plans[key]

    def _ffn(self, part: Any, x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        """A module's forward while this is open."""
        if torch.compiler.is_compiling():
            raise ValueError("a GradientSum is open, which works in eager mode alone: end it, or call the module that is not compiled")
        if not torch.is_grad_enabled():
            return _Summed.forward_only(self, part, x, gate, up, down)
        return _Summed.apply(x, gate, up, down, self, part)


class _Summed(torch.autograd.Function):
    """The block whose backward adds to a sum; the weights get no gradient from autograd."""

    @staticmethod
    def forward_only(sum_: GradientSum, part: Any, x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        return _run_forward(sum_, part, x, (gate, up, down), False)[0]

    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor, up: Tensor, down: Tensor, sum_: GradientSum, part: Any) -> Tensor:
        y, saved = _run_forward(sum_, part, x, (gate, up, down), True)
        ctx.sum, ctx.part = sum_, part
        ctx.save_for_backward(x, gate, up, down, *saved)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tuple[Optional[Tensor], ...]:  # type: ignore[override]
        x, gate, up, down, *saved = ctx.saved_tensors
        dx = torch.empty(x.shape, dtype=torch.bfloat16, device=x.device) if ctx.needs_input_grad[0] else None
        _run_backward(ctx.sum, ctx.part, x, dy, (gate, up, down), saved, dx)
        return dx, None, None, None, None, None


def _weight(part: Any, name: str) -> Tensor:
    return part._weight(name)


def _layout_of(
    part: Any, x: Tensor, ordered: bool, backward: bool, weights: Tuple[Tensor, Tensor, Tensor]
) -> Tuple[Dict[str, Any], int, Any]:
    """Further arguments of a plan's call, tokens of the context rank, and what has to live until it returns."""
    if part._sharded is None:
        return {}, rows_of(x).shape[0], None
    from .sharded_operators import second_cut_for

    block = part._sharded.block
    held = block.order.of(x.shape, ordered)
    cut = second_cut_for(block, weights, part._sharded.held, backward)
    arguments = {name: described(name, tensor) for name, tensor in cut._asdict().items() if tensor is not None}
    return {**arguments, "shards": held.shards}, held.mine, cut


def _run_forward(
    sum_: GradientSum, part: Any, x: Tensor, weights: Tuple[Tensor, Tensor, Tensor], saves: bool
) -> Tuple[Tensor, List[Tensor]]:
    more, tokens, alive = _layout_of(part, x, saves, False, weights)
    y = torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)
    rows = rows_of(x)
    width = weights[0].shape[0]
    saved = [torch.empty(tokens, width, dtype=torch.bfloat16, device=x.device) for _ in range(3)]
    gate, up, down = weights
    sum_._plan(part).forward(
        described("x", rows), described("y", rows_of(y)), described("gate", gate), described("up", up), described("down", down),
        saved=described_saved(*saved), stream=current_stream(x.get_device()), **more,
    )  # fmt: skip
    del alive
    return y, saved


def _run_backward(
    sum_: GradientSum, part: Any, x: Tensor, dy: Tensor, weights: Tuple[Tensor, Tensor, Tensor], saved: List[Tensor], dx: Optional[Tensor]
) -> None:
    if not sum_._open:
        raise RuntimeError("backward of a pass whose GradientSum has ended")
    more, _, alive = _layout_of(part, x, True, True, weights)
    gate, up, down = weights
    sum_._plan(part).backward(
        described("x", rows_of(x)), described("dy", rows_of(dy)), described("gate", gate), described("up", up), described("down", down),
        dx=None if dx is None else described("dx", rows_of(dx)), saved=described_saved(*saved), accumulate=sum_._sums[id(part)],
        stream=current_stream(x.get_device()), **more,
    )  # fmt: skip
    del alive
