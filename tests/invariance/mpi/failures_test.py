"""Ranks that disagree, that fail or that stall: a line that names the rank, an exit code, nothing left behind."""
import os
import resource
import signal
import time
import unittest

import command
import mpirun
from command import CommandTest, layer_tensors, safetensors, tensor, write, write_checkpoint

SMALL = ["verify", "--transport", "mpi", "--shape", "65x320", "--tokens", 5]


class Disagreements(CommandTest):
    def assert_disagreement(self, first, second, words):
        report = self.path("report.json")
        returned, out, lines = mpirun.run((1, [*first, "--json", report]), (1, [*second, "--json", report]))
        self.assertEqual((returned, out), (2, ""), lines)
        self.assertTrue(lines)
        for line in lines:
            self.assertEqual(line, lines[0])
            for word in ["rank 1", "rank 0", *words]:
                self.assertIn(word, line)
        self.assertEqual(os.listdir(self.folder), [])

    def test_seed(self):
        self.assert_disagreement(SMALL, [*SMALL, "--seed", 7], ["seed 7", "has 0"])

    def test_contract(self):
        self.assert_disagreement([*SMALL, "--contract", "sm90-v1"], SMALL, ["contract bf16-tree-v1", "sm90-v1"])

    def test_tokens(self):
        self.assert_disagreement(SMALL, [*SMALL[:-1], 6], ["tokens 6", "has 5"])

    def test_split(self):
        self.assert_disagreement(SMALL, [*SMALL, "--split", "zigzag"], ["--split zigzag", "contiguous"])


class Refusals(CommandTest):
    def assert_refused(self, groups, words, code=2, lines_wanted=None):
        returned, out, lines = mpirun.run(*groups)
        self.assertEqual((returned, out), (code, ""), lines)
        if lines_wanted is not None:
            self.assertEqual(len(lines), lines_wanted, lines)
        for word in words:
            self.assertTrue(any(word in line for line in lines), lines)

    def test_a_layout_by_name_with_more_ranks_than_processes(self):
        self.assert_refused([(3, [*SMALL, "--layouts", "tp2,tp4"])], ["tp4", "mpirun -np 4"], lines_wanted=3)

    def test_a_layout_by_name_that_the_contract_refuses(self):
        # The third process has no part in it and ends like the others.
        self.assert_refused([(3, [*SMALL, "--contract", "hf-sm90-v1", "--down", "columns", "--layouts", "tp2"])], ["columns"],
                            lines_wanted=3)

    def test_bad_input_of_one_rank_ends_all(self):
        write_checkpoint(self.path("model"), layer_tensors(64, 208))
        good = ["verify", "--transport", "mpi", "--checkpoint", self.path("model"), "--layer", 0]
        self.assert_refused([(1, good), (1, [*good[:-3], self.path("absent"), "--layer", 0])], ["rank 1: ", "absent"], lines_wanted=2)

    def test_run_on_a_layout_that_is_refused(self):
        write_checkpoint(self.path("model"), layer_tensors(64, 208))
        write(self.path("x"), safetensors({"x": tensor("BF16", [4, 64])}))
        arguments = ["run", "--transport", "mpi", "--checkpoint", self.path("model"), "--layer", 0, "--input", self.path("x"),
                     "--output", self.path("y"), "--contract", "hf-sm90-v1", "--down", "columns", "--layouts", "tp2"]
        self.assert_refused([(3, arguments)], ["columns"], lines_wanted=3)
        self.assert_refused([(1, arguments)], ["tp2", "mpirun -np 2"], lines_wanted=1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["model", "x"])


class Losses(CommandTest):
    """A block large enough to be interrupted: its weights are 75 MB."""

    FLAGS = ["verify", "--transport", "mpi", "--shape", "2048x6144", "--tokens", 16, "--layouts", "tp3,cp3,tp2", "--no-reference"]
    RESIDENT = 64 << 20  # more than any rank has before the ranks have agreed

    def at_work(self, process, rank):
        """The pid of a rank, once it has made its weights."""
        until = time.time() + 60
        while time.time() < until:
            for name in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        environment = file.read().split(b"\0")
                    with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                        fields = file.read().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                parent, resident = int(fields[1]), int(fields[21]) * resource.getpagesize()
                mine = parent == process.pid and b"OMPI_COMM_WORLD_RANK=%d" % rank in environment
                if mine and resident > self.RESIDENT:
                    return int(name)
            time.sleep(0.01)
        process.kill()
        return self.fail(f"rank {rank} did not begin")

    def test_a_rank_that_fails_is_named_by_all(self):
        os.mkdir(self.path("reports"))
        process = mpirun.start((3, [*self.FLAGS, "--json", self.path("reports/report.json")]))
        self.at_work(process, 0)
        os.rmdir(self.path("reports"))  # rank 0 cannot write what it has found
        returned, _, lines = mpirun.finish(process)
        self.assertIn(returned, [2, 3])  # 2 of rank 0, 3 of the others: mpirun returns what it sees first
        self.assertEqual(len(lines), 3, lines)
        for line in lines:
            self.assertIn("rank 0", line)
            self.assertIn("report.json", line)

    def test_a_rank_that_stalls_is_lost(self):
        process = mpirun.start((3, [*self.FLAGS, "--timeout", 1, "--json", self.path("report.json")]))
        stalled = self.at_work(process, 2)
        os.kill(stalled, signal.SIGSTOP)
        try:
            returned, out, lines = mpirun.finish(process)
        finally:
            try:
                os.kill(stalled, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.assertEqual((returned, out), (3, ""), lines)
        self.assertTrue(lines)
        for line in lines:
            self.assertIn("rank 2", line)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    command.main()
