"""Tensor, context and sequence parallelism for the block's modules, over the process groups of a device mesh."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist
from torch import nn

from .mlp import PROJECTIONS, ContractMLP
from .sharded import Layout, SecondCut, ShardedBlock
from .token_order import Shards, TokenOrder
from .transport import GroupTransport

Tensor = torch.Tensor


class ShardedState:
    """What a module holds beside its parameters, which are this rank's shard: gate and up [I_r, H], down [H, I_r]."""

    def __init__(self, block: ShardedBlock) -> None:
        self.block = block
        self.layout = block.name
        self.held = SecondCut()

    def __deepcopy__(self, memo: Dict[int, Any]) -> "ShardedState":
        """Of a copied module: the same ranks and plans, weights of its own."""
        copied = ShardedState(self.block)
        copied.held = SecondCut(*(None if tensor is None else tensor.clone() for tensor in self.held))
        return copied

    def ffn(self, x: Tensor, gate: Tensor, up: Tensor, down: Tensor, contract: str, recompute: bool) -> Tensor:
        if contract != self.block.contract:
            raise ValueError(f"the contract is {contract} now, and was {self.block.contract} when the module was parallelized")
        weights = (gate, up, down, *self.held, self.layout)
        recorded = torch.is_grad_enabled() and (x.requires_grad or gate.requires_grad or up.requires_grad or down.requires_grad)
        if recorded and not recompute:
            return torch.ops.samebits.sharded_ffn_saving(x, *weights)[0]
        return torch.ops.samebits.sharded_ffn(x, *weights)

    def shard_of(self, name: str, projection: str, weight: Tensor) -> Tensor:
        """This rank's shard of a whole weight; itself where it is that already. ValueError for other shapes, with the name."""
        axis, begin, end = self.part(projection)
        whole, mine = [self.block.intermediate, self.block.hidden], [end - begin, self.block.hidden]
        if axis == 1:
            whole.reverse()
            mine.reverse()
        if list(weight.shape) == mine:
            return weight
        if list(weight.shape) == whole:
            return weight.narrow(axis, begin, end - begin).clone(memory_format=torch.contiguous_format)
        raise ValueError(f"{name} is {list(weight.shape)}; the whole weight is {whole}, this rank's shard {mine}")

    def part(self, name: str) -> Tuple[int, int, int]:
        """(axis, begin, end) of a projection's whole weight."""
        begin, end = self.block.shard.intermediate
        return (1 if name == "down_proj" else 0), begin, end


def parallelize(
    module: nn.Module,
    device_mesh: Any,
    tp: Optional[str] = "tp",
    cp: Optional[str] = "cp",
    sequence_parallel: bool = True,
    *,
    down: str = "auto",
    shards: str = "contiguous",
    gradients: str = "auto",
    exchange: str = "auto",
    second_cut: str = "exchanged",
    concurrent: bool = False,
    check_replicas: bool = False,
) -> nn.Module:
    """The block's modules in `module` (Qwen3MLP, or what replace_mlp made) compute on the ranks of a mesh from now on. Collective.

    device_mesh: a torch DeviceMesh; tp, cp: names of its dimensions, None for one rank. Weights are given whole, and are cut to this
    rank's shard, parameters keeping their identity; or as this rank's shard already. A state dict that is loaded afterwards may hold
    either. What a rank passes in and gets back, [..., T, H]:

    - its tensor ranks' common tokens, or under sequence_parallel this rank's even slice of them;
    - with cp, the tokens of this context rank: shards="contiguous" parts or "zigzag" chunks of every sequence, the same number on every
      rank. set_shards tells of any other split.

    Gradients of the weights are those of this rank's shard over the tokens of all ranks: nothing is left to be reduced over tp or cp.
    Bytes travel by the groups' all-gathers and all-to-alls; every sum is made here, in the contract's tree.

    down, gradients, exchange: as of `samebits.Plan`. Where down is cut by rows (a contract whose I axis is one leaf, hf-sm90-v1) a rank
    reads its weights cut the other way too: second_cut="exchanged" fetches that in every call, always current; "held" keeps it, and
    `refresh` fetches it after weights have changed. concurrent: exchanges may run beside the computing, on another thread or stream.
    check_replicas: as of `samebits.Plan`, for finding ranks that do not hold the same; slow.

    Returns `module`. ValueError where the mesh, the weights or a word do not fit, Refused for a layout that the contract does not allow.
    """
    found = [(name or type(part).__name__, part) for name, part in module.named_modules() if isinstance(part, ContractMLP)]
    if not found:
        raise ValueError(f"{type(module).__name__} holds none of the block's modules: make them with Qwen3MLP or replace_mlp first")
    for name, part in found:
        if part._sharded is not None:
            raise ValueError(f"{name} is parallelized already")
    if second_cut not in ("exchanged", "held"):
        raise ValueError(f"second_cut is {second_cut!r}; it is exchanged or held")
    mesh = _Mesh.of(device_mesh, tp, cp)
    layout = Layout(mesh.tp, mesh.cp, sequence_parallel and mesh.tp > 1, mesh.tp_group)
    device = _device(device_mesh)
    transport = None
    if mesh.tp * mesh.cp > 1:
        transport = GroupTransport(mesh.ranks, mesh.groups, device).transport(mesh.rank, concurrent)
    options = {"down": down, "gradients": gradients, "exchange": exchange, "check_replicas": check_replicas}
    order = TokenOrder(mesh.tp, mesh.cp, mesh.rank // mesh.tp, layout.sequence_parallel, shards)

    blocks: Dict[Tuple[str, int, int], ShardedBlock] = {}
    for name, part in found:
        key = (part.contract, *_whole_sizes(name, part))
        if key not in blocks:
            blocks[key] = ShardedBlock(*key, layout, order, transport, device, options)
    states = []
    for name, part in found:
        key = (part.contract, *_whole_sizes(name, part))
        states.append(ShardedState(blocks[key]))
    shards_of = [
        [state.shard_of(f"{name}.{projection}.weight", projection, _plain(getattr(part, projection).weight)) for projection in PROJECTIONS]
        for (name, part), state in zip(found, states)
    ]
    for (_, part), state, weights in zip(found, states, shards_of):  # all of them fit
        for projection, shard in zip(PROJECTIONS, weights):
            _put(getattr(part, projection), shard)
        part._sharded = state
    if second_cut == "held":
        refresh(module)
    return module


def set_shards(module: nn.Module, shards: Optional[Shards]) -> None:
    """Which tokens of the global sequence each context rank holds from now on: [[(begin, end), ...], ...]; None: by the rule of parallelize.

    Every rank says the same. Under sequence parallelism tensor rank t of T holds rows n*t//T to n*(t+1)//T of its context rank's n tokens.
    """
    for part in _sharded(module):
        part._sharded.block.order.give(shards)


def refresh(module: nn.Module) -> None:
    """Fetches the second cut of the weights that modules hold (parallelize, second_cut="held"). Collective. In place: captured graphs see it."""
    for part in _sharded(module):
        state: ShardedState = part._sharded
        made = state.block.second_cut(*(getattr(part, name).weight.detach() for name in PROJECTIONS))
        if any(tensor is not None for tensor in state.held):
            for old, new in zip(state.held, made):
                if old is not None and new is not None:
                    old.copy_(new)
        else:
            state.held = made


def gather_state_dict(module: nn.Module) -> Dict[str, Tensor]:
    """state_dict() with the weights of parallelized modules whole, on every rank. Collective."""
    state = dict(module.state_dict())
    for name, part in module.named_modules():
        if isinstance(part, ContractMLP) and part._sharded is not None:
            for projection in PROJECTIONS:
                key = f"{name}.{projection}.weight" if name else f"{projection}.weight"
                state[key] = _gather(part._sharded, projection, getattr(part, projection).weight.detach())
    return state


def _gather(state: ShardedState, projection: str, shard: Tensor) -> Tensor:
    block = state.block
    if block.layout.tp == 1:
        return shard.clone()
    axis = state.part(projection)[0]
    mine = (shard if axis == 0 else shard.t()).contiguous()
    parts = [torch.empty(rows, block.hidden, dtype=shard.dtype, device=shard.device) for rows in block.intermediate_parts]
    ranks = dist.get_process_group_ranks(block.layout.tp_group)
    for source, part, rank in zip(ranks, parts, range(len(parts))):
        if rank == block.shard.tp_rank:
            part.copy_(mine)
        dist.broadcast(part.view(torch.uint8), src=source, group=block.layout.tp_group)
    whole = torch.cat(parts)
    return whole if axis == 0 else whole.t().contiguous()


def _sharded(module: nn.Module) -> List[Any]:
    found = [part for part in module.modules() if isinstance(part, ContractMLP) and part._sharded is not None]
    if not found:
        raise ValueError(f"{type(module).__name__} holds no module that parallelize was called on")
    return found


def _whole_sizes(name: str, part: Any) -> Tuple[int, int]:
    hidden, intermediate = getattr(part, "hidden_size", None), getattr(part, "intermediate_size", None)
    if hidden is None or intermediate is None:
        raise ValueError(f"{name} does not say its hidden_size and intermediate_size")
    return int(hidden), int(intermediate)


def _plain(weight: Tensor) -> Tensor:
    """Of a DTensor this rank's part."""
    return weight.to_local() if hasattr(weight, "to_local") else weight


def _put(linear: nn.Linear, shard: Tensor) -> None:
    if hasattr(linear.weight, "to_local"):
        linear.weight = nn.Parameter(shard.detach(), requires_grad=linear.weight.requires_grad)
    else:
        linear.weight.data = shard.detach()
        linear.weight.grad = None
    linear.out_features, linear.in_features = shard.shape


def _device(device_mesh: Any) -> torch.device:
    kind = device_mesh.device_type
    if kind == "cpu":
        return torch.device("cpu")
    if kind == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    raise ValueError(f"the mesh is of {kind} devices; the block runs on cpu and cuda")


class _Mesh(NamedTuple):
    """The ranks of a layout in a device mesh: rank = cp_rank * tp + tp_rank."""

    tp: int
    cp: int
    rank: int
    ranks: List[int]  # global
    groups: List[Any]
    tp_group: Any

    @classmethod
    def of(cls, device_mesh: Any, tp: Optional[str], cp: Optional[str]) -> "_Mesh":
        names = tuple(device_mesh.mesh_dim_names or ())
        wanted = [name for name in (cp, tp) if name is not None]
        for name in wanted:
            if name not in names:
                raise ValueError(
                    f"the mesh has the dimensions {list(names)}, not {name!r}: name others, or pass None where there is one rank"
                )
        if tp is not None and tp == cp:
            raise ValueError(f"tp and cp are both {tp!r}; they are two dimensions of the mesh")
        dims = [names.index(name) for name in wanted]
        grid = device_mesh.mesh.permute(*(d for d in range(len(names)) if d not in dims), *dims)
        sizes = {name: device_mesh.mesh.shape[names.index(name)] for name in wanted}
        tp_size, cp_size = sizes.get(tp, 1) if tp else 1, sizes.get(cp, 1) if cp else 1
        layouts = grid.reshape(-1, cp_size * tp_size).tolist()
        mine = dist.get_rank()
        ranks = next((layout for layout in layouts if mine in layout), None)
        if ranks is None:
            raise ValueError(f"rank {mine} is not in the mesh")
        tp_group = device_mesh.get_group(tp) if tp is not None else None
        row = ranks.index(mine) // tp_size * tp_size
        if tp_group is not None and dist.get_process_group_ranks(tp_group) != ranks[row : row + tp_size]:
            raise ValueError(
                f"the mesh has the ranks {ranks[row : row + tp_size]} along {tp!r}: they have to ascend, as the group counts them"
            )
        groups = [group for group in (tp_group, device_mesh.get_group(cp) if cp is not None else None) if group is not None]
        if tp_size > 1 and cp_size > 1:
            groups.append(dist.new_subgroups_by_enumeration(layouts)[0])
        return cls(tp_size, cp_size, ranks.index(mine), ranks, groups, tp_group)
