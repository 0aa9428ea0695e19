#!/usr/bin/env python3
"""hf-sm90-v1 is what Hugging Face's Qwen3MLP computes on this Hopper GPU: counts the elements that differ.

usage: bench/hf_bits.py [--binary build/tools/samebits] [--shapes 0.6b,1.7b,4b,8b,14b,32b] [--tokens 1024,2048,8192]
                        [--layouts tp1|all|LIST] [--batches LIST] [--batch-shapes 8b] [--replay] [--splits LIST]
                        [--work /dev/shm] [--json FILE]

For every shape and token count PyTorch's autograd makes y, dx and the three weight gradients from activations with outlier channels;
they are written as a recording, and `samebits verify --engine cuda --contract hf-sm90-v1 --recording` counts what differs from its own, at
TP1 and on the layouts. Every count must be 0.

--batches   the first rows as batches of their own (1 to 256 tokens): in samebits, where the same rows must keep their bits, and in PyTorch,
            where the rows that change are counted. `none` leaves it out.
--replay    the CPU engine computes sampled rows again: rows of y and dx from their tokens alone, rows of d_gate and d_up and columns of d_down
            from their rows of I alone, over all tokens.
--splits    token counts where it is looked up, not demanded, whether PyTorch's own results are hf-sm90-v1's: where they are not, cuBLAS
            has cut the sum in pieces. `none` leaves it out.

The exit code is 1 when a count that must be 0 is not.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from hugging_face import qwen3_mlp, report_head
from tables import print_table, write_report

CONTRACT = "hf-sm90-v1"
SHAPES = {"0.6b": (1024, 3072), "1.7b": (2048, 6144), "4b": (2560, 9728), "8b": (4096, 12288), "14b": (5120, 17408), "32b": (5120, 25600)}
RESULTS = ["y", "dx", "d_gate", "d_up", "d_down"]
PREFIX = "model.layers.0.mlp."
REPLAYED = 16  # tokens, and rows of I


def different(a, b):
    """Elements whose bits differ; any NaN equals any NaN."""
    return int(((a.view(torch.int16) != b.view(torch.int16)) & ~(a.isnan() & b.isnan())).sum())


def tokens_like_a_models(tokens, hidden):
    """x with a few channels far larger than the others and dy, as training sees them."""
    x = torch.randn(tokens, hidden, device="cuda")
    channels = torch.randperm(hidden, device="cuda")[:max(2, hidden // 256)]
    x[:, channels] *= torch.empty(len(channels), device="cuda").uniform_(20, 200)
    return x.bfloat16(), (torch.randn(tokens, hidden, device="cuda") * 0.01).bfloat16()


def autograd(block, x, dy):
    """What PyTorch returns, by the names of a recording."""
    x = x.detach().requires_grad_(True)
    y = block(x)
    dx, d_gate, d_up, d_down = torch.autograd.grad(
        y, [x, block.gate_proj.weight, block.up_proj.weight, block.down_proj.weight], dy)
    return dict(zip(RESULTS, [y.detach(), dx, d_gate, d_up, d_down]))


class Samebits:
    """The command, and a folder for what it reads and writes."""

    def __init__(self, binary, work):
        self.binary, self.work = binary, work

    def path(self, name):
        return os.path.join(self.work, name)

    def write_checkpoint(self, name, gate, up, down):
        os.makedirs(self.path(name), exist_ok=True)
        weights = {"gate_proj": gate, "up_proj": up, "down_proj": down}
        save_file({f"{PREFIX}{key}.weight": value.contiguous() for key, value in weights.items()},
                  self.path(f"{name}/model.safetensors"))
        with open(self.path(f"{name}/config.json"), "w") as config:
            json.dump({"hidden_size": gate.shape[1], "intermediate_size": gate.shape[0], "hidden_act": "silu"}, config)

    def write(self, name, tensors):
        save_file({key: value.contiguous() for key, value in tensors.items()}, self.path(name))

    def report(self, verb, flags):
        """The JSON report of a run that ended with 0 or 1."""
        command = [self.binary, verb, "--contract", CONTRACT, "--json", "-", *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"{' '.join(command)}\nexit code {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def verify(self, checkpoint, recording, layouts="tp1", batches=None):
        flags = ["--engine", "cuda", "--checkpoint", self.path(checkpoint), "--layer", "0", "--recording", self.path(recording),
                 "--layouts", layouts, "--no-reference"]
        return self.report("verify", flags + (["--batches", batches] if batches else []))

    def run_on_cpu(self, checkpoint, tokens, output):
        self.report("run", ["--engine", "cpu", "--checkpoint", self.path(checkpoint), "--layer", "0", "--input", self.path(tokens),
                            "--grad", self.path(tokens), "--output", self.path(output)])


def internal_mismatches(report):
    """Of a verify report, all but the recording: layouts, repeats, rows alone, batches, known results."""
    counts = {row["name"]: sum(row["mismatch"].values()) for row in report["layouts"] if row["status"] != "refused"}
    counts["repeat"] = report["invariance"]["repeat"]
    counts["rows alone"] = report["invariance"]["row_vs_batch"]
    for batch in report["invariance"]["batches"]:
        counts[f"batch {batch['tokens']}"] = batch["output"] + batch["d_hidden"]
    counts["known results"] = report["golden"]["differing"]
    return counts


def replay(samebits, block, x, dy, made):
    """Elements that differ between PyTorch's results and sampled rows of them on the CPU."""
    gate, up, down = (projection.weight.detach() for projection in (block.gate_proj, block.up_proj, block.down_proj))
    rows = torch.linspace(0, x.shape[0] - 1, min(REPLAYED, x.shape[0])).long().cuda()
    samebits.write("replayed_tokens", {"x": x[rows], "dy": dy[rows]})
    samebits.run_on_cpu("model", "replayed_tokens", "replayed")
    with safe_open(samebits.path("replayed"), "pt", device="cuda") as file:
        counts = {name: different(file.get_tensor(name), made[name][rows]) for name in ["y", "dx"]}

    columns = torch.linspace(0, gate.shape[0] - 1, REPLAYED).long().cuda()
    samebits.write_checkpoint("model_rows", gate[columns], up[columns], down[:, columns])
    samebits.write("replayed_tokens", {"x": x, "dy": dy})
    samebits.run_on_cpu("model_rows", "replayed_tokens", "replayed")
    ours = load_file(samebits.path("replayed"), device="cuda")  # y and dx are of the sampled rows of I alone
    counts["d_gate"] = different(ours["d_gate"], made["d_gate"][columns])
    counts["d_up"] = different(ours["d_up"], made["d_up"][columns])
    counts["d_down"] = different(ours["d_down"], made["d_down"][:, columns])
    return counts


def batches_in_pytorch(block, x, dy, batches):
    """For each batch of the first rows: elements of y and dx that are not those of the whole batch."""
    whole = autograd(block, x, dy)
    counts = []
    for tokens in batches:
        part = autograd(block, x[:tokens], dy[:tokens])
        counts.append({"tokens": tokens, "y": different(part["y"], whole["y"][:tokens]),
                       "dx": different(part["dx"], whole["dx"][:tokens]), "elements": part["y"].numel()})
    return counts


class Work:
    """What is found, and whether all that must be 0 is."""

    def __init__(self, args, samebits):
        self.args, self.samebits = args, samebits
        self.rows, self.batches, self.splits, self.ok = [], [], [], True

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def record(self, block, shape, tokens):
        hidden, _ = shape
        x, dy = tokens_like_a_models(tokens, hidden)
        made = autograd(block, x, dy)
        self.samebits.write("recording", {"x": x, "dy": dy, **made})
        return x, dy, made

    def exact(self, name, block, shape, tokens):
        x, dy, made = self.record(block, shape, tokens)
        report = self.samebits.verify("model", "recording", self.args.layouts)
        row = {"shape": name, "hidden": shape[0], "intermediate": shape[1], "tokens": tokens,
               "elements": report["recording"]["elements"], "differing": report["recording"]["mismatch"],
               "internal": internal_mismatches(report),
               "layouts": [layout["name"] for layout in report["layouts"] if layout["status"] != "refused"],
               "power": report["power"], "seconds": report["environment"]["seconds"]}
        if self.args.replay:
            row["replayed_differing"] = replay(self.samebits, block, x, dy, made)
        self.ok &= report["ok"] and not any(row.get("replayed_differing", {}).values())
        self.rows.append(row)
        self.say(f"{name}, {tokens} tokens: differing {row['differing']}, replayed {row.get('replayed_differing')}, "
                 f"internal {sum(row['internal'].values())}, {row['seconds']:.1f} s")

    def row_batches(self, name, block, shape, batches):
        x, dy, _ = self.record(block, shape, max(batches))
        report = self.samebits.verify("model", "recording", batches=",".join(map(str, batches)))
        ours = {batch["tokens"]: batch for batch in report["invariance"]["batches"]}
        for theirs in batches_in_pytorch(block, x, dy, batches):
            batch = ours[theirs["tokens"]]
            self.ok &= batch["output"] + batch["d_hidden"] == 0
            self.batches.append({"shape": name, "of": max(batches), "tokens": theirs["tokens"], "elements": theirs["elements"],
                                 "samebits": {"y": batch["output"], "dx": batch["d_hidden"]},
                                 "pytorch": {"y": theirs["y"], "dx": theirs["dx"]}})
        self.say(f"{name}: batches of {batches}")

    def split(self, name, block, shape, tokens):
        self.record(block, shape, tokens)
        recording = self.samebits.verify("model", "recording")["recording"]
        self.splits.append({"shape": name, "tokens": tokens, "elements": recording["elements"], "differing": recording["mismatch"]})
        self.say(f"{name}, {tokens} tokens: PyTorch differs in {recording['mismatch']}")

    def report(self):
        report = report_head("samebits.hf_bits/1")
        report |= {"contract": CONTRACT, "rows": self.rows, "batches": self.batches, "splits": self.splits, "ok": self.ok}
        return report

    def print(self):
        if self.rows:
            print(f"Elements that differ between PyTorch's results and samebits under {CONTRACT}; layouts: elements of any layout that differ from TP1")
            print_table(["shape", "tokens", *RESULTS, "layouts", *(["replayed"] if self.args.replay else [])],
                        [[row["shape"], row["tokens"], *[row["differing"][name] for name in RESULTS],
                          f"{sum(row['internal'].values())} of {len(row['layouts'])}",
                          *([sum(row["replayed_differing"].values())] if self.args.replay else [])] for row in self.rows])
        if self.batches:
            print("\nThe first rows as a batch of their own: elements that are not those of the largest batch")
            print_table(["shape", "tokens", "elements", "samebits y", "dx", "PyTorch y", "dx"],
                        [[row["shape"], row["tokens"], row["elements"], row["samebits"]["y"], row["samebits"]["dx"],
                          row["pytorch"]["y"], row["pytorch"]["dx"]] for row in self.batches])
        if self.splits:
            print(f"\nWhere PyTorch's own results are not {CONTRACT}'s: share of elements that differ")
            print_table(["shape", "tokens", *RESULTS],
                        [[row["shape"], row["tokens"],
                          *["=" if row["differing"][name] == 0 else f"{100 * row['differing'][name] / row['elements'][name]:.2g}%"
                            for name in RESULTS]] for row in self.splits])
        print(f"\n{'ok' if self.ok else 'MISMATCH'}")


def numbers(text):
    return [] if text == "none" else [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/tools/samebits")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--tokens", default="1024,2048,8192")
    parser.add_argument("--layouts", default="tp1")
    parser.add_argument("--batches", default="1,2,3,4,7,8,9,15,16,17,24,32,33,48,63,64,65,96,127,128,129,192,255,256")
    parser.add_argument("--batch-shapes", default="8b")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--splits", default="none", help="for instance 16,32,64,128,256,512,1024,2048,4096,8192")
    parser.add_argument("--work", default="/dev/shm", help="where a folder for a few gigabytes is made")
    parser.add_argument("--json")
    args = parser.parse_args()
    shapes = args.shapes.split(",")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        samebits = Samebits(args.binary, folder)
        work = Work(args, samebits)
        for name in shapes:
            shape = SHAPES[name]
            block = qwen3_mlp(*shape)
            samebits.write_checkpoint("model", *(p.weight.detach() for p in (block.gate_proj, block.up_proj, block.down_proj)))
            for tokens in numbers(args.tokens):
                work.exact(name, block, shape, tokens)
            if name in args.batch_shapes.split(",") and numbers(args.batches):
                work.row_batches(name, block, shape, numbers(args.batches))
            for tokens in numbers(args.splits):
                work.split(name, block, shape, tokens)
            del block
            torch.cuda.empty_cache()
    if args.json != "-":
        work.print()
    write_report(args.json, work.report())
    sys.exit(0 if work.ok else 1)


if __name__ == "__main__":
    main()
