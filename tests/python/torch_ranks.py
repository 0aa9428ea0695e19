"""One rank of test_torch_parallel.py, started by torchrun: every layout against one rank, bit for bit.

usage: torchrun --nproc-per-node 4 torch_ranks.py [--cuda] [PART...]

With gloo on CPUs; --cuda: with NCCL, a GPU a rank, of which two will do. Ends with 1, and says which, where anything differs.
"""

import copy
import os
import re
import sys
import types
from pathlib import Path

import torch
import torch.distributed as dist
import torch.utils.checkpoint
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

try:
    from torch.distributed.tensor import Shard, distribute_tensor
except ImportError:  # PyTorch before 2.5
    from torch.distributed._tensor import Shard, distribute_tensor

sys.path.insert(0, str(Path(__file__).parent))

from torch_support import TorchBlock, module_of, require_equal  # noqa: E402

import samebits  # noqa: E402
import samebits.torch  # noqa: E402

CUDA = "--cuda" in sys.argv
WORLD = int(os.environ["WORLD_SIZE"])
TENSOR, BOTH, CONTEXT = ((4, 1), (2, 2), (1, 4)) if WORLD == 4 else ((2, 1), (1, 2), (1, 2))  # tp, cp
LAYOUTS = [(*grid, sp) for grid in dict.fromkeys((TENSOR, BOTH, CONTEXT)) for sp in ((False, True) if grid[0] > 1 else (False,))]
CONTRACTS = ["bf16-tree-v1", "f32-tree-v1", "hf-sm90-v1", "sm90-v1,I=max:32,node=bf16,lanes=bf16", "f32-tree-v1,T=block:16"]
HIDDEN, INTERMEDIATE = 72, 208
WEIGHTS = ("gate_proj", "up_proj", "down_proj")


def block_of(*sizes, **more):
    return TorchBlock(*sizes, **more).to("cuda" if CUDA else "cpu")


def rows_of(shards, mesh, sequence_parallel):
    """The tokens of this rank."""
    cp_rank, tp_rank = mesh.get_coordinate()
    tp = mesh.mesh.shape[1]
    rows = [token for begin, end in shards[cp_rank] for token in range(begin, end)]
    return rows[len(rows) * tp_rank // tp : len(rows) * (tp_rank + 1) // tp] if sequence_parallel else rows


def check(name, module, block, rows, expected, leading=(), calls=1):
    """One step of a module on this rank's rows, against the whole."""
    for _ in range(calls):
        for weight in module.parameters():
            weight.grad = None
        x = block.x[rows].reshape(*leading, -1, HIDDEN).requires_grad_() if leading else block.x[rows].clone().requires_grad_()
        with torch.no_grad():
            require_equal(f"{name}: y of inference", module(x).reshape(-1, HIDDEN), expected["y"][rows])
        y = module(x)
        y.backward(block.dy[rows].reshape(x.shape))
        require_equal(f"{name}: y", y.reshape(-1, HIDDEN), expected["y"][rows])
        require_equal(f"{name}: dx", x.grad.reshape(-1, HIDDEN), expected["dx"][rows])
        check_gradients(name, module, expected, [getattr(module, weight).weight.grad for weight in WEIGHTS])


def check_gradients(name, module, expected, gradients):
    begin, end = module._sharded.block.shard.intermediate
    d_gate, d_up, d_down = gradients
    require_equal(f"{name}: d_gate", d_gate, expected["d_gate"][begin:end])
    require_equal(f"{name}: d_up", d_up, expected["d_up"][begin:end])
    require_equal(f"{name}: d_down", d_down, expected["d_down"][:, begin:end])


def layouts(meshes):
    for contract in CONTRACTS:
        block = block_of(40, HIDDEN, INTERMEDIATE)
        expected = block.expected(contract)
        for tp, cp, sp in LAYOUTS:
            mesh = meshes[tp, cp]
            for rule, shards_of in (("contiguous", samebits.contiguous_shards), ("zigzag", samebits.zigzag_shards)):
                module = samebits.torch.parallelize(module_of(block, contract), mesh, sequence_parallel=sp, shards=rule)
                check(f"{contract} tp{tp}+cp{cp} {sp} {rule}", module, block, rows_of(shards_of(40, cp), mesh, sp), expected)


def other_meshes(meshes):
    """Dimensions in another order, and by other names; data-parallel replicas beside each other."""
    kind = "cuda" if CUDA else "cpu"
    block = block_of(24, HIDDEN, INTERMEDIATE)
    for contract in ("sm90-v1", "hf-sm90-v1", "f32-tree-v1,T=block:16"):
        expected = block.expected(contract)
        if WORLD == 4:
            mesh = init_device_mesh(kind, (2, 2), mesh_dim_names=("tensor", "context"))
            module = samebits.torch.parallelize(module_of(block, contract), mesh, tp="tensor", cp="context")
            tp_rank, cp_rank = mesh.get_coordinate()
            begin, end = samebits.contiguous_shards(24, 2)[cp_rank][0]
            rows = list(range(begin, end))[6 * tp_rank : 6 * (tp_rank + 1)]
            check(f"{contract}: tp before cp", module, block, rows, expected)
            mesh = init_device_mesh(kind, (2, 2), mesh_dim_names=("dp", "tp"))
            module = samebits.torch.parallelize(module_of(block, contract), mesh, cp=None, sequence_parallel=False)
            check(f"{contract}: replicas", module, block, list(range(24)), expected)
        alone = samebits.torch.parallelize(
            module_of(block, contract), init_device_mesh(kind, (WORLD,), mesh_dim_names=("dp",)), tp=None, cp=None
        )
        check(f"{contract}: one rank", alone, block, list(range(24)), expected)


def odd_tokens(meshes):
    """Any split that ranks are told of, no tokens on a rank among them."""
    for tokens, shards in ((37, [[(0, 20)], [(20, 37)]]), (37, [[(0, 3), (9, 37)], [(3, 9)]]), (5, [[(0, 5)], []])):
        block = block_of(tokens, HIDDEN, INTERMEDIATE, seed=tokens)
        for contract in ("f32-tree-v1", "hf-sm90-v1"):
            expected = block.expected(contract)
            for sp in (False, True):
                module = samebits.torch.parallelize(module_of(block, contract), meshes[BOTH], sequence_parallel=sp)
                samebits.torch.set_shards(module, shards)
                check(f"{contract} {shards} {sp}", module, block, rows_of(shards, meshes[BOTH], sp), expected, calls=2)
                samebits.torch.set_shards(module, None)


def batches(meshes):
    """[B, T, H] counts tokens sequence by sequence, as one rank does."""
    block = block_of(24, HIDDEN, INTERMEDIATE)  # three sequences of eight
    expected = block.expected("f32-tree-v1,T=block:16")
    for rule, parts in (("contiguous", [[(0, 4)], [(4, 8)]]), ("zigzag", [[(0, 2), (6, 8)], [(2, 6)]])):
        module = samebits.torch.parallelize(module_of(block, "f32-tree-v1,T=block:16"), meshes[BOTH], sequence_parallel=False, shards=rule)
        shards = [[(8 * i + begin, 8 * i + end) for i in range(3) for begin, end in part] for part in parts]
        check(f"a batch, {rule}", module, block, rows_of(shards, meshes[BOTH], False), expected, leading=(3,))
    module = samebits.torch.parallelize(module_of(block, "sm90-v1"), meshes[TENSOR])
    x = block.x[:24].reshape(3, 8, HIDDEN)[:, :2]
    with torch.no_grad():
        assert module(x.contiguous()).shape == (3, 2, HIDDEN)
    try:
        module(x.contiguous())
        raise AssertionError("slices of several sequences were taken for one")
    except ValueError as refusal:
        assert "3 slices, no slice of one sequence" in str(refusal), refusal


def ways_of_weights(meshes):
    """Whole, as shards, recomputing, with the second cut held, loaded later, gathered."""
    block, other = block_of(16, HIDDEN, INTERMEDIATE), block_of(16, HIDDEN, INTERMEDIATE, seed=9)
    other.x, other.dy = block.x, block.dy
    for contract in ("sm90-v1", "hf-sm90-v1"):
        mesh, rows = meshes[TENSOR], list(range(16))
        expected = block.expected(contract)
        whole = module_of(block, contract)
        module = samebits.torch.parallelize(module_of(block, contract), mesh, sequence_parallel=False)
        for name, value in samebits.torch.gather_state_dict(module).items():
            require_equal(f"gathered {name}", value, whole.state_dict()[name])

        check(f"{contract}: a copy", copy.deepcopy(module), block, rows, expected)

        shards = module_of(block, contract)  # as another program would have cut them
        for weight in WEIGHTS:
            getattr(shards, weight).weight = torch.nn.Parameter(getattr(module, weight).weight.detach().clone())
        samebits.torch.parallelize(shards, mesh, sequence_parallel=False)
        shards.recompute = True
        check(f"{contract}: shards, recomputing", shards, block, rows, expected)

        if contract == "hf-sm90-v1" and INTERMEDIATE % WORLD == 0:  # cut evenly, as DTensors are
            distributed = module_of(block, contract)
            for weight, axis in zip(WEIGHTS, (0, 0, 1)):
                linear = getattr(distributed, weight)
                linear.weight = torch.nn.Parameter(distribute_tensor(linear.weight.detach(), mesh["tp"], [Shard(axis)]))
            samebits.torch.parallelize(distributed, mesh, sequence_parallel=False)
            check(f"{contract}: DTensors", distributed, block, rows, expected)

        held = samebits.torch.parallelize(module_of(block, contract), mesh, sequence_parallel=False, second_cut="held")
        check(f"{contract}: held", held, block, rows, expected)
        changed = {name: weight for name, weight in zip((f"{w}.weight" for w in WEIGHTS), other.weights)}
        changed_expected = module_of(other, contract)
        x = block.x.clone().requires_grad_()
        changed_expected(x).backward(block.dy)
        later = {"y": changed_expected(x).detach(), "dx": x.grad}
        later.update(zip(("d_gate", "d_up", "d_down"), (getattr(changed_expected, w).weight.grad for w in WEIGHTS)))
        for name, candidate in (("exchanged", module), ("held", held)):
            candidate.load_state_dict(changed)
            if name == "held":
                samebits.torch.refresh(candidate)
            check(f"{contract}: {name}, other weights", candidate, block, rows, later)


def checkpoints(meshes):
    """The forward anew in the backward, by PyTorch and by the operator."""
    for contract in ("f32-tree-v1", "hf-sm90-v1"):
        block = block_of(24, HIDDEN, INTERMEDIATE)
        expected = block.expected(contract)
        for sp in (False, True):
            module = samebits.torch.parallelize(module_of(block, contract), meshes[BOTH], sequence_parallel=sp)
            rows = rows_of(samebits.contiguous_shards(24, meshes[BOTH].mesh.shape[0]), meshes[BOTH], sp)
            for reentrant in (False, True):
                module.zero_grad()
                x = block.x[rows].clone().requires_grad_()
                torch.utils.checkpoint.checkpoint(module, x, use_reentrant=reentrant).backward(block.dy[rows])
                require_equal(f"{contract} checkpoint: dx", x.grad, expected["dx"][rows])
                check_gradients(f"{contract} checkpoint", module, expected, [getattr(module, weight).weight.grad for weight in WEIGHTS])


def sums(meshes):
    """GradientSum over layouts."""
    contract, block = "f32-tree-v1,T=block:16", block_of(96, HIDDEN, INTERMEDIATE)
    expected = block.expected(contract)
    for tp, cp, sp in LAYOUTS:
        mesh = meshes[tp, cp]
        module = samebits.torch.parallelize(module_of(block, contract), mesh, sequence_parallel=sp)
        with samebits.torch.GradientSum(module, max_tokens=96, micro_batch=32):
            for begin in range(0, 96, 32):
                rows = [begin + row for row in rows_of(samebits.contiguous_shards(32, cp), mesh, sp)]
                module(block.x[rows]).backward(block.dy[rows])
        check_gradients(f"sum on tp{tp}+cp{cp} {sp}", module, expected, [getattr(module, weight).weight.grad for weight in WEIGHTS])


def compiled(meshes):
    block = block_of(8, HIDDEN, INTERMEDIATE)
    expected = block.expected("sm90-v1")
    module = samebits.torch.parallelize(module_of(block, "sm90-v1"), meshes[BOTH])
    rows = rows_of(samebits.contiguous_shards(8, 2), meshes[BOTH], True)
    samebits.torch.reserve(module, 8, training=True)
    traced = torch.compile(module, fullgraph=True, backend="aot_eager")
    x = block.x[rows].clone().requires_grad_()
    y = traced(x)
    y.backward(block.dy[rows])
    require_equal("compiled: y", y, expected["y"][rows])
    require_equal("compiled: dx", x.grad, expected["dx"][rows])


def hugging_face(meshes):
    """The MLPs of a model, on what they are given in it, on every layout."""
    try:
        import transformers
    except ImportError:
        return
    torch.manual_seed(1)
    sizes = dict(hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=131)
    model = (
        transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**sizes, attn_implementation="eager"))
        .bfloat16()
        .to("cuda" if CUDA else "cpu")
    )
    samebits.torch.replace_mlp(model)
    recorded = []
    for layer in model.model.layers:
        layer.mlp.register_forward_hook(lambda module, inputs, output: recorded.append((module, inputs[0].detach(), output.detach())))
    model(torch.randint(0, 131, (1, 16), generator=torch.Generator().manual_seed(2)).to(model.device))
    for tp, cp, sp in LAYOUTS:
        for module, x, y in recorded:
            mine = samebits.torch.Qwen3MLP(types.SimpleNamespace(**sizes)).to(x)
            mine.load_state_dict(module.state_dict())
            samebits.torch.parallelize(mine, meshes[tp, cp], sequence_parallel=sp)
            rows = rows_of(samebits.contiguous_shards(16, cp), meshes[tp, cp], sp)
            require_equal(f"a layer on tp{tp}+cp{cp} {sp}", mine(x[0][rows]), y[0][rows])


def fully_sharded(meshes):
    """FSDP gathers whole weights for the call: y and dx are those of one process. (Its reduction of gradients adds, and is not looked at.)"""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # PyTorch before 2.6
        return
    block = block_of(24, HIDDEN, INTERMEDIATE)
    expected = block.expected("sm90-v1")
    module = torch.nn.Sequential(module_of(block, "sm90-v1"))
    fully_shard(module, mesh=init_device_mesh("cuda" if CUDA else "cpu", (WORLD,)))
    x = block.x.clone().requires_grad_()
    y = module(x)
    y.backward(block.dy)
    require_equal("fully sharded: y", y, expected["y"])
    require_equal("fully sharded: dx", x.grad, expected["dx"])


def refusals(meshes):
    block = block_of(8, HIDDEN, INTERMEDIATE)
    mesh = meshes[BOTH]
    again = samebits.torch.parallelize(module_of(block, "sm90-v1"), mesh)
    swapped = DeviceMesh("cuda" if CUDA else "cpu", torch.tensor([1, 0, 3, 2]), mesh_dim_names=("tp",))
    copied = copy.deepcopy(again)
    copied.contract = "f32-tree-v1"
    halved = module_of(block, "sm90-v1")
    halved.up_proj.weight = torch.nn.Parameter(halved.up_proj.weight[:7].detach().clone())
    for build, message in (
        (lambda: samebits.torch.parallelize(torch.nn.Linear(2, 2), mesh), "holds none of the block's modules"),
        (lambda: samebits.torch.parallelize(again, mesh), "parallelized already"),
        (
            lambda: samebits.torch.parallelize(module_of(block, "sm90-v1"), mesh, tp="model"),
            r"the mesh has the dimensions \['cp', 'tp'\], not 'model'",
        ),
        (lambda: samebits.torch.parallelize(module_of(block, "sm90-v1"), mesh, tp="cp"), "tp and cp are both 'cp'"),
        (
            lambda: samebits.torch.parallelize(module_of(block, "sm90-v1"), mesh, shards="ring"),
            "shards is 'ring'; it is contiguous or zigzag",
        ),
        (lambda: samebits.torch.parallelize(module_of(block, "sm90-v1"), mesh, second_cut="no"), "second_cut is 'no'"),
        (lambda: samebits.torch.parallelize(module_of(block, "hf-sm90-v1"), mesh, down="columns"), "down cut by columns over tp2"),
        (lambda: samebits.torch.parallelize(module_of(block, "hf-sm90-v1"), mesh, down="up"), "down is 'up'"),
        (
            lambda: samebits.torch.parallelize(halved, mesh),
            r"up_proj.weight is \[7, 72\]; the whole weight is \[208, 72\], this rank's shard \[(96|112), 72\]",
        ),
        (lambda: samebits.torch.set_shards(again, [[(0, 8)]]), "shards of 1 context ranks, the mesh has 2"),
        (lambda: samebits.torch.refresh(torch.nn.Linear(2, 2)), "no module that parallelize was called on"),
        (lambda: samebits.torch.parallelize(module_of(block, "sm90-v1"), swapped, cp=None), "they have to ascend"),
        (lambda: copied(block.x), "the contract is f32-tree-v1 now, and was sm90-v1 when"),
        (
            lambda: samebits.torch.replace_mlp(torch.nn.Sequential(again), "sm90-v1", classes=[samebits.torch.Qwen3MLP]),
            "0: it is parallelized",
        ),
        (lambda: again(block.x.float()), "x is f32, the plan expects bf16"),
        (lambda: again(block.x[:, 1:].contiguous()), "x is 8 x 71"),
    ):
        try:
            build()
        except (ValueError, TypeError) as refusal:
            assert re.search(message, str(refusal)), f"{message!r} is not in {refusal}"
        else:
            raise AssertionError(f"not refused: {message}")


PARTS = (
    layouts,
    other_meshes,
    odd_tokens,
    batches,
    ways_of_weights,
    checkpoints,
    sums,
    compiled,
    hugging_face,
    fully_sharded,
    *([refusals] if WORLD == 4 else []),
)


def main():
    if CUDA:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if CUDA else "gloo")
    torch.set_num_threads(1)
    kind = "cuda" if CUDA else "cpu"
    meshes = {(tp, cp): init_device_mesh(kind, (cp, tp), mesh_dim_names=("cp", "tp")) for tp, cp in dict.fromkeys((TENSOR, BOTH, CONTEXT))}
    named = [word for word in sys.argv[1:] if word != "--cuda"]
    for part in PARTS:
        if not named or part.__name__ in named:
            part(meshes)
            if dist.get_rank() == 0:
                print(f"{part.__name__}: equal bits", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
