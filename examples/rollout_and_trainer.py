#!/usr/bin/env python3
"""A rollout engine at TP 4 and in small batches, against the trainer at TP 1: do the MLPs of one model give the same bits?

usage: rollout_and_trainer.py [--device cpu|cuda] [--tp 4] [--batches 1,7,64] [--tokens N] [--hidden H --intermediate I] [--layers L]

A small Qwen3 model with random weights makes one training step. What every MLP was given, x and the gradient dy of its output, and what it
made is recorded. Then the rollout computes the same tokens again, cut over tensor ranks (threads here; processes with
samebits.torch.parallelize) and in batches of other sizes. Layer input by layer input, because attention is stock PyTorch, which keeps no bits.

On a CPU the trainer's MLPs are samebits. On a Hopper GPU the trainer is Hugging Face's model as it is, at 1024 tokens or more: it is looked up
first that cuBLAS sums this shape in one chain (then the contract hf-sm90-v1 is what the unmodified module computes), and the rollout has its
bits at any TP and any number of tokens, and a backward with its gradients.

Exit code 1 when a count of samebits that must be 0 is not.
"""

import argparse
import sys
import threading

import torch
import transformers

import samebits
import samebits.torch

NAMES = ("y", "dx", "d_gate", "d_up", "d_down")
CONTRACT = "hf-sm90-v1"


def make_model(args):
    config = transformers.Qwen3Config(
        hidden_size=args.hidden, intermediate_size=args.intermediate, num_hidden_layers=args.layers, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, vocab_size=1000, max_position_embeddings=max(args.tokens, 64),
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(args.device):
        return transformers.Qwen3ForCausalLM(config).to(torch.bfloat16)


def training_step(model, args):
    """(name, x, dy, weights, what the trainer's MLP made of them) of every MLP, tokens as rows."""
    mlps = [(name, module) for name, module in model.named_modules() if name.endswith("mlp")]
    seen = {name: {} for name, _ in mlps}

    def rows(tensor):
        return tensor.detach().reshape(-1, args.hidden).clone()

    for name, module in mlps:

        def keep(module, inputs, output, name=name):
            inputs[0].register_hook(lambda dx: seen[name].update(dx=rows(dx)))
            output.register_hook(lambda dy: seen[name].update(dy=rows(dy)))
            seen[name].update(x=rows(inputs[0]), y=rows(output))

        # In front of the MLP a view, so that the gradient that is seen is the MLP's and not the sum with other paths.
        module.register_forward_pre_hook(lambda module, inputs: (inputs[0].view_as(inputs[0]),))
        module.register_forward_hook(keep)
    ids = torch.randint(0, 1000, (1, args.tokens), generator=torch.Generator().manual_seed(1)).to(args.device)
    model(ids, labels=ids).loss.backward()
    recorded = []
    for name, module in mlps:
        weights = [module.gate_proj.weight, module.up_proj.weight, module.down_proj.weight]
        made = {"y": seen[name]["y"], "dx": seen[name]["dx"]}
        made.update(zip(NAMES[2:], (weight.grad for weight in weights)))
        recorded.append((name, seen[name]["x"], seen[name]["dy"], [weight.detach() for weight in weights], made))
    return recorded


def on_tensor_ranks(x, dy, weights, args, batch):
    """y, computed in batches, and with dy the gradients: ranks are threads, a rank's weights are slices of the whole."""
    transports = samebits.local_transports(args.tp)
    results, failures = [None] * args.tp, []

    def rank(index):
        try:
            place = {"device": args.device} if args.device == "cuda" else {"device": "cpu", "threads": 1}
            plan = samebits.Plan(
                CONTRACT, args.hidden, args.intermediate, batch, tp=args.tp, backward=dy is not None, transport=transports[index], **place
            )
            stream = torch.cuda.Stream() if args.device == "cuda" else None
            handle = stream.cuda_stream if stream else 0
            parts = samebits.slice_weights(plan, *weights)
            made = {"y": torch.empty_like(x)}
            for rows, y in zip(x.split(batch), made["y"].split(batch)):
                plan.forward(rows, y, **parts, stream=handle)
            if dy is not None:
                made.update(dx=torch.empty_like(x))
                made.update(zip(NAMES[2:], (torch.empty_like(parts[name]).contiguous() for name in ("gate", "up", "down"))))
                plan.backward(x, dy, **parts, **{name: made[name] for name in NAMES[1:]}, stream=handle)
            if stream:
                stream.synchronize()
            results[index] = made
        except BaseException as failure:  # noqa: BLE001: raised below
            failures.append(failure)

    if args.device == "cuda":
        torch.cuda.synchronize()
    threads = [threading.Thread(target=rank, args=(index,)) for index in range(args.tp)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    whole = dict(results[0])  # y and dx are on every rank
    if dy is not None:
        whole.update(d_gate=torch.cat([made["d_gate"] for made in results]), d_up=torch.cat([made["d_up"] for made in results]))
        whole["d_down"] = torch.cat([made["d_down"] for made in results], dim=1)
    return whole


def stock_forward(x, weights, tp=1):
    """What PyTorch computes: the modules' own expression, over tensor ranks with a sum of their parts as an all-reduce makes it."""
    gate, up, down = weights
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu
    parts = [linear(silu(linear(x, g)) * linear(x, u), d) for g, u, d in zip(gate.chunk(tp), up.chunk(tp), down.chunk(tp, dim=1))]
    return sum(parts[1:], parts[0])


def differing(made, expected):
    return samebits.compare(made, expected).differing


def stock_is_the_contract(args):
    """Whether PyTorch computes the contract's bits on this device, at this shape and these tokens: looked up, not assumed."""
    generator = torch.Generator().manual_seed(2)
    x, dy = (torch.randn(args.tokens, args.hidden, generator=generator).bfloat16().to(args.device) for _ in range(2))
    shapes = ((args.intermediate, args.hidden),) * 2 + ((args.hidden, args.intermediate),)
    leaves = [x.requires_grad_()] + [
        (0.02 * torch.randn(*shape, generator=generator)).bfloat16().to(args.device).requires_grad_() for shape in shapes
    ]
    results = []
    for forward in (lambda x, *weights: stock_forward(x, weights), lambda *operands: samebits.torch.ffn(*operands, CONTRACT)):
        y = forward(*leaves)
        results.append((y.detach(), *torch.autograd.grad(y, leaves, dy)))
    return sum(differing(a, b) for a, b in zip(*results)) == 0


def main():
    hopper = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0) and samebits.cuda_status()["built"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if hopper else "cpu")
    parser.add_argument("--tp", type=int, default=4)
    parser.add_argument("--batches", default="1,7,64", help="tokens of a rollout's call")
    parser.add_argument("--tokens", type=int, help="of the training step; 1024 on a GPU, 96 on a CPU")
    parser.add_argument("--hidden", type=int, help="1024 on a GPU, 128 on a CPU")
    parser.add_argument("--intermediate", type=int, help="3072 on a GPU, 352 on a CPU")
    parser.add_argument("--layers", type=int, default=2)
    args = parser.parse_args()
    defaults = (1024, 1024, 3072) if args.device == "cuda" else (96, 128, 352)
    args.tokens, args.hidden, args.intermediate = (
        given or value for given, value in zip((args.tokens, args.hidden, args.intermediate), defaults)
    )

    model = make_model(args)
    unmodified = args.device == "cuda" and stock_is_the_contract(args)
    if not unmodified:
        samebits.torch.replace_mlp(model, CONTRACT)
    trainer = "unmodified PyTorch, whose sums are one chain here" if unmodified else "samebits"
    if args.device == "cuda" and not unmodified:
        trainer += f" (PyTorch does not compute {CONTRACT} at {args.tokens} tokens of this shape: its cuBLAS splits sums)"
    print(
        f"contract {samebits.Contract(CONTRACT).name} ({samebits.Contract(CONTRACT).fingerprint}), {args.device}, torch {torch.__version__}"
    )
    print(f"trainer: TP 1, {args.tokens} tokens, MLPs by {trainer}\n")
    wrong = 0
    for name, x, dy, weights, made in training_step(model, args):
        print(f"{name}: elements of y that differ from the whole batch at TP 1, of {made['y'].numel()}")
        stock = stock_forward(x, weights)
        for batch in map(int, args.batches.split(",")):
            ours = differing(on_tensor_ranks(x, None, weights, args, batch)["y"], made["y"])
            theirs = [differing(torch.cat([stock_forward(part, weights, tp) for part in x.split(batch)]), stock) for tp in (1, args.tp)]
            print(
                f"  batches of {batch:>3}:  samebits, TP {args.tp}: {ours:>6}    PyTorch, TP 1: {theirs[0]:>6}    TP {args.tp}: {theirs[1]:>6}"
            )
            wrong += ours
        replayed = on_tensor_ranks(x, dy, weights, args, len(x))
        for tensor in NAMES:
            count = differing(replayed[tensor], made[tensor])
            print(f"  {tensor:<7} trainer {samebits.digest(made[tensor])}  rollout {samebits.digest(replayed[tensor])}  {count} differ")
            wrong += count
    print("\nequal bits" if wrong == 0 else f"\n{wrong} elements differ that must not")
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
