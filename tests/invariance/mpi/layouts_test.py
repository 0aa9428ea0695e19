"""Ranks as processes give the bits, the counts and the digests of ranks as threads."""
import json
import unittest

import command
import mpirun
from command import CommandTest, layer_tensors, safetensors, tensor, write, write_checkpoint

ALL = ["tp1", "tp2", "tp2+sp", "tp4", "tp2+cp2", "tp2+cp2+sp", "tp8", "tp4+cp2", "tp4+cp2+sp"]
RANKS = dict(zip(ALL, [1, 2, 2, 4, 4, 4, 8, 8, 8]))
SIX = ["output", "training_output", "d_hidden", "d_gate", "d_up", "d_down"]


def without_the_clock(report):
    """What must be the same wherever the ranks are."""
    report = dict(report)
    report.pop("environment")
    report["layouts"] = [{key: value for key, value in row.items() if key != "seconds"} for row in report["layouts"]]
    return report


class Layouts(CommandTest):
    def across(self, processes, *flags, code=0):
        """The report of rank 0 of so many processes."""
        path = self.path("report.json")
        returned, out, lines = mpirun.run((processes, ["verify", "--transport", "mpi", *flags, "--json", path]))
        self.assertEqual((returned, lines if code == 0 else []), (code, []), out)
        self.assertEqual(out.count("Elements that differ"), 1)  # rank 0 alone prints
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def assert_same(self, processes, *flags):
        there, here = self.across(processes, *flags), self.report("verify", *flags)
        environment = there["environment"]
        self.assertEqual((environment["transport"], environment["mpi"]["processes"]), ("mpi", processes))
        self.assertIn("MPI", environment["mpi"]["library"])
        self.assertEqual(len(environment["mpi"]["peak_rss_bytes"]), processes)
        self.assertEqual([row["name"] for row in there["layouts"]], [row["name"] for row in here["layouts"]])
        for row, local in zip(there["layouts"], here["layouts"]):
            if RANKS.get(row["name"], 1) > processes:
                self.assertEqual(row["status"], "refused")
                for word in [row["name"], str(RANKS[row["name"]]), str(processes)]:
                    self.assertIn(word, row["reason"])
                self.assertIsNone(row["mismatch"])
                row.update({key: value for key, value in local.items() if key != "seconds"})
        self.assertEqual(without_the_clock(there), without_the_clock(here))
        for row in there["layouts"]:
            if row["status"] == "ok":
                self.assertEqual(row["mismatch"], dict.fromkeys(SIX, 0))
                self.assertEqual(row["digest"], there["layouts"][0]["digest"])
        return there

    def test_2(self):
        self.assert_same(2, "--shape", "65x320", "--tokens", 13, "--contract", "sm90-v1")

    def test_3(self):
        self.assert_same(3, "--shape", "96x224", "--tokens", 7, "--layouts", "tp3,cp3,tp3+sp,tp2", "--gradient-dtype", "f32")

    def test_4(self):
        self.assert_same(4, "--shape", "96x224", "--tokens", 33, "--contract", "hf-sm90-v1", "--split", "zigzag")

    def test_8(self):
        for flags in [["--contract", "bf16-tree-v1", "--tokens", 77], ["--contract", "sm90-v1", "--down", "rows"],
                      ["--contract", "hf-sm90-v1", "--split", "zigzag", "--tokens", 0]]:
            with self.subTest(flags=flags):
                there = self.assert_same(8, "--shape", "65x320", *flags)
                self.assertEqual(there["environment"]["mpi"]["idle"], 0)

    def test_16(self):
        there = self.assert_same(16, "--shape", "96x224", "--tokens", 40, "--split", "zigzag", "--no-reference")
        self.assertEqual(there["environment"]["mpi"]["idle"], 8)
        # Covers of the gradients across context ranks, and sixteen ranks.
        self.assert_same(16, "--shape", "96x512", "--tokens", 128, "--gradients", "exchange", "--layouts", "tp8+cp2+sp,tp16",
                         "--no-reference")

    def test_refusals_at_the_call_leave_the_world_alive(self):
        # Seven tokens are one leaf: covers of the gradients cannot be exchanged.
        there = self.assert_same(5, "--shape", "64x208", "--tokens", 7, "--gradients", "exchange", "--layouts", "all")
        status = {row["name"]: row["status"] for row in there["layouts"]}
        self.assertEqual({name for name in ALL if status[name] == "ok"}, {"tp1", "tp2", "tp2+sp", "tp4", "tp8"} |
                         {name for name in ALL if RANKS[name] > 5 and "cp" not in name})


class Run(CommandTest):
    def test_a_file_of_the_same_bits(self):
        write_checkpoint(self.path("model"), layer_tensors(64, 208))
        write(self.path("x"), safetensors({"x": tensor("BF16", [9, 64], 5), "dy": tensor("BF16", [9, 64], 6)}))
        arguments = ["run", "--checkpoint", self.path("model"), "--layer", 0, "--input", self.path("x"), "--grad", self.path("x")]
        self.report(*arguments, "--output", self.path("here"))
        for number, layout in enumerate(["tp3", "tp2+cp2+sp"]):
            there = self.path(f"there{number}")
            returned, out, lines = mpirun.run(
                (4, [*arguments, "--output", there, "--transport", "mpi", "--layouts", layout, "--json", "-"]))
            self.assertEqual((returned, lines), (0, []), out)
            self.assertEqual(json.loads(out)["environment"]["mpi"]["processes"], 4)
            compared = self.report("compare", self.path("here"), there)
            self.assertEqual({one["status"] for one in compared["tensors"]}, {"equal"})


class Bench(CommandTest):
    FLAGS = ["bench", "--transport", "mpi", "--shape", "64x208", "--repeats", 3]

    def test_a_row_for_every_layout(self):
        layouts = ["tp1", "tp2", "tp2+cp2+sp"]  # of five processes one or more are idle
        returned, out, lines = mpirun.run((5, [*self.FLAGS, "--tokens", "1,9", "--direction", "all", "--layouts", ",".join(layouts),
                                               "--json", self.path("report")]))
        self.assertEqual((returned, lines), (0, []), out)
        self.assertEqual(out.count("slowest rank"), 1)  # rank 0 alone prints
        with open(self.path("report"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual([(row["direction"], row["layout"], row["tokens"]) for row in report["rows"]],
                         [(direction, layout, tokens) for direction in ["forward", "both"] for layout in layouts for tokens in [1, 9]])
        self.assertEqual(report["environment"]["mpi"]["processes"], 5)
        for row in report["rows"]:
            self.assertGreater(row["ours_us"]["min"], 0)
            self.assertEqual(row["exposed_us"] is None, row["layout"] == "tp1")
            if row["layout"] != "tp1":
                self.assertIsNone(row["baseline_us"])
                self.assertGreater(row["exposed_us"]["min"], 0)
                self.assertLessEqual(row["exposed_us"]["max"], row["ours_us"]["max"])
            self.assertEqual(row["moved"] is None, row["layout"] == "tp1")
            if (row["direction"], row["layout"], row["tokens"]) == ("forward", "tp2", 9):
                # Nodes of y in one shot: bf16, as the contract stores them.
                self.assertEqual(row["moved"]["collectives"], 1)
                self.assertEqual(row["moved"]["sent"] % (9 * 64 * 2), 0)

    def test_refusals(self):
        for flags, words in [(["--layouts", "tp2,tp4"], ["tp4", "mpirun -np 4"]),
                             (["--layouts", "tp2", "--contract", "hf-sm90-v1", "--down", "columns"], ["columns"])]:
            returned, out, lines = mpirun.run((3, [*self.FLAGS, "--tokens", 9, *flags]))
            self.assertEqual((returned, out, len(lines)), (2, "", 3), lines)
            for word in words:
                self.assertIn(word, lines[0])


if __name__ == "__main__":
    command.main()
