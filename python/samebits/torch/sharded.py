"""One block shape on a rank of a layout: its plans, the exchanges of a second cut of the weights, and the operators' state."""

import itertools
import threading
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from .._core import Plan, Transport
from .plans import is_capturing, rounded_tokens
from .token_order import Held, TokenOrder

Tensor = torch.Tensor

# By the name that an operator gets: a traced graph holds constants, and this object is none.
_by_name: "weakref.WeakValueDictionary[str, ShardedBlock]" = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def sharded_block(name: str) -> "ShardedBlock":
    found = _by_name.get(name)
    if found is None:
        raise ValueError(f"there is no layout {name!r} in this process: the module that it was made for is gone")
    return found


class Layout(NamedTuple):
    """A rank's place."""

    tp: int
    cp: int
    sequence_parallel: bool
    tp_group: Any  # of torch.distributed; None for one rank


class SecondCut(NamedTuple):
    """The other cut of a rank's weights, where down is cut by rows; None where it is not needed."""

    gate_columns: Optional[Tensor] = None  # [I, H_r]
    up_columns: Optional[Tensor] = None  # [I, H_r]
    down_rows: Optional[Tensor] = None  # [H_r, I]


class ShardedBlock:
    """Of one contract, shape and layout; the layers of a model share it. Collective: every rank of the layout makes and calls its own.

    It has a plan for inference and one for training, of the most tokens that any call has had. A plan that a CUDA graph was captured
    with is kept; make the calls once before the capture, so that it exists.
    """

    def __init__(
        self, contract: str, hidden: int, intermediate: int, layout: Layout, order: TokenOrder, transport: Optional[Transport],
        device: torch.device, options: Dict[str, Any],
    ) -> None:  # fmt: skip
        self.contract, self.hidden, self.intermediate = contract, hidden, intermediate
        self.layout, self.order, self.device = layout, order, device
        self._transport, self._options = transport, options
        self._plans: Dict[bool, Plan] = {}
        self._most: Dict[bool, Tuple[int, int]] = {}
        self._captured: List[Plan] = []
        self.lock = threading.RLock()
        plan = self._make(True, 0, 0)
        self.shard, self.by_rows = plan.shard, plan.down == "rows"
        mine = (tuple(plan.shard.intermediate), tuple(plan.shard.hidden))
        everyone: List[Any] = [mine]
        if layout.tp > 1:
            everyone = [None] * layout.tp
            dist.all_gather_object(everyone, mine, group=layout.tp_group)
        self.intermediate_parts = [end - begin for (begin, end), _ in everyone]
        self._hiddens = [tuple(interval) for _, interval in everyone]
        self.name = f"{plan.layout}:{next(_numbers)}"
        _by_name[self.name] = self

    def plan(self, backward: bool, held: Held) -> Plan:
        with self.lock:
            tokens, most = self._most.get(backward, (-1, -1))
            capturing = is_capturing(self.device.index if self.device.type == "cuda" else -1)
            if tokens < held.tokens or most < held.most:
                if capturing:
                    raise RuntimeError(
                        f"the layout has no plan for {held.tokens} tokens yet, and ranks cannot agree on one inside a capture: call once before"
                    )
                self._make(backward, max(tokens, rounded_tokens(held.tokens)), max(most, rounded_tokens(held.most)))
            plan = self._plans[backward]
            if capturing and plan not in self._captured:
                self._captured.append(plan)
            return plan

    def reserve(self, backward: bool, tokens: int) -> None:
        """A plan for so many tokens of the whole sequence, split evenly. Collective."""
        self.plan(backward, Held([], tokens, -(-tokens // self.layout.cp), 0))

    def make_plan(self, backward: bool, tokens: int, most: int) -> Plan:
        """One more, of the caller's own. Collective."""
        where = {"device": "cpu", "threads": torch.get_num_threads()} if self.device.type == "cpu" else {"device": str(self.device)}
        return Plan(
            self.contract, self.hidden, self.intermediate, tokens, tp=self.layout.tp, cp=self.layout.cp,
            sequence_parallel=self.layout.sequence_parallel, backward=backward, own_saved=not backward, max_rank_tokens=most,
            transport=self._transport, **where, **self._options,
        )  # fmt: skip

    def _make(self, backward: bool, tokens: int, most: int) -> Plan:
        plan = self.make_plan(backward, tokens, most)
        self._plans[backward], self._most[backward] = plan, (tokens, most)
        return plan

    def second_cut(self, gate: Optional[Tensor], up: Optional[Tensor], down: Optional[Tensor]) -> SecondCut:
        """Of the shards that are given, as exchanged between tensor ranks. Nothing where down is cut by columns."""
        if not self.by_rows:
            return SecondCut()
        return SecondCut(
            None if gate is None else self._columns(gate),
            None if up is None else self._columns(up),
            None if down is None else self._columns(down.t()).t(),
        )

    def _columns(self, rows: Tensor) -> Tensor:
        """[I_r, H] on every tensor rank to [I, H_r]: bytes of other ranks' columns leave, those of this rank's arrive."""
        outgoing = [rows[:, begin:end].contiguous().view(-1) for begin, end in self._hiddens]
        begin, end = self.shard.hidden
        columns = torch.empty(self.intermediate, end - begin, dtype=rows.dtype, device=rows.device)
        dist.all_to_all_single(
            columns.view(-1).view(torch.uint8), torch.cat(outgoing).view(torch.uint8),
            [2 * count * (end - begin) for count in self.intermediate_parts], [2 * part.numel() for part in outgoing],
            group=self.layout.tp_group,
        )  # fmt: skip
        return columns
