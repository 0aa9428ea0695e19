"""PyTorch's layouts in bench/torch_layouts.py compute the module: y, dX and the weight gradients of every rank, on the CPU over gloo. Skipped
where PyTorch and transformers are missing."""
import importlib.util
import os
import tempfile
import unittest
from unittest import mock

FOUND = all(importlib.util.find_spec(name) for name in ["torch", "transformers"])
HIDDEN, INTERMEDIATE, TOKENS, RANKS = 16, 32, 8, 4


def module_of(intermediate):
    from transformers import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP
    return Qwen3MLP(Qwen3Config(hidden_size=HIDDEN, intermediate_size=intermediate, hidden_act="silu"))


def check_layout(name, rank, full, x, dy):
    import torch
    from layouts import parse_layout
    from torch_layouts import Groups, RankBlock

    layout = parse_layout(name)
    block = RankBlock.__new__(RankBlock)  # its constructor asks a GPU for its cache
    block.layout, block.groups = layout, Groups(layout, rank)
    if rank >= layout.ranks:
        return
    y = full(x)
    want = torch.autograd.grad(y, [x, *full.parameters()], dy)
    t, c, held, rows = rank % layout.tp, rank // layout.tp, INTERMEDIATE // layout.tp, layout.rows(TOKENS)
    mine = slice(t * held, (t + 1) * held)
    first = c * (TOKENS // layout.cp) + (t * rows if layout.sp else 0)
    tokens = slice(first, first + rows)
    module = module_of(held)
    with torch.no_grad():
        module.gate_proj.weight.copy_(full.gate_proj.weight[mine])
        module.up_proj.weight.copy_(full.up_proj.weight[mine])
        module.down_proj.weight.copy_(full.down_proj.weight[:, mine])
        torch.testing.assert_close(block.y_of(module, x[tokens]), y[tokens])
    gradients = []
    grad = torch.autograd.grad
    with mock.patch.object(torch.autograd, "grad", lambda *arguments: gradients.extend(grad(*arguments)) or gradients):
        block.gradients(module, x.detach()[tokens].clone().requires_grad_(), dy[tokens])
    for ours, theirs in zip(gradients, [want[0][tokens], want[1][mine], want[2][mine], want[3][:, mine]]):
        torch.testing.assert_close(ours, theirs)


def play(rank, meet):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    full, x, dy = module_of(INTERMEDIATE), torch.randn(TOKENS, HIDDEN, requires_grad=True), torch.randn(TOKENS, HIDDEN)
    for name in ["tp1", "tp2", "tp2+sp", "cp2", "tp2+cp2", "tp2+cp2+sp", "tp4"]:
        check_layout(name, rank, full, x, dy)
        dist.barrier()
    dist.destroy_process_group()


@unittest.skipUnless(FOUND, "PyTorch or transformers is missing")
class TorchLayouts(unittest.TestCase):
    def test_every_rank_holds_its_part_of_the_module(self):
        import torch.multiprocessing
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(play, args=(os.path.join(folder, "meet"),), nprocs=RANKS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
