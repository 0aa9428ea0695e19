"""--transport nccl where NCCL, CUDA or a usable GPU is missing: a line that says which, exit code 3 on every rank. On a machine with GPUs
the layouts run, over NCCL and over MPI."""
import json
import os
import unittest

import command
import mpirun
from command import CommandTest, write

BENCH = ["bench", "--engine", "cuda", "--shape", "65x320", "--tokens", "3,13", "--direction", "all", "--repeats", 2]
VERIFY = ["verify", "--engine", "cuda", "--shape", "65x320", "--tokens", 13, "--no-reference"]
STAND_IN = os.environ["SAMEBITS_NCCL_STAND_IN"]


class Missing(CommandTest):
    def set_up_library(self):
        """The stand-in, under the name that the command looks for."""
        os.symlink(STAND_IN, self.path("libnccl.so.2"))
        return {"LD_LIBRARY_PATH": self.folder}

    def assert_missing(self, words, **environment):
        for verb in [VERIFY, [*BENCH, "--layouts", "tp1,tp2"]]:
            arguments = [*verb, "--transport", "nccl", "--json", self.path("report.json")]
            returned, out, lines = mpirun.run((2, arguments), **environment)
            self.assertEqual((returned, out), (3, ""), lines)
            self.assertTrue(lines)
            for line in lines:
                for word in words:
                    self.assertIn(word, line)
            self.assertNotIn("report.json", os.listdir(self.folder))

    def test_no_library_that_can_be_loaded(self):
        for name in ["libnccl.so.2", "librccl.so.1"]:
            write(self.path(name), b"no library")
        self.assert_missing(["--transport nccl: no NCCL or RCCL could be loaded", "libnccl.so.2", "librccl.so.1"],
                            LD_LIBRARY_PATH=self.folder)

    def test_an_old_library(self):
        self.assert_missing(["--transport nccl: ", "is version 2.17.6: 2.18.0 or later is needed"],
                            **self.set_up_library(), SAMEBITS_STAND_IN_VERSION="21706")

    def test_no_cuda(self):
        info = self.report("info")
        if info["engines"]["cuda"] and not info["engines"]["cuda"]["problem"]:
            self.skipTest("this machine has a GPU")
        self.assert_missing(["--engine cuda"], **self.set_up_library())

    def test_ranks_that_were_given_other_engines_or_transports(self):
        cpu = ["verify", "--transport", "mpi", "--shape", "65x320", "--tokens", 13]
        returned, out, lines = mpirun.run((1, cpu), (1, [*cpu, "--engine", "cuda"]))
        there = bool(self.report("info")["devices"])  # otherwise rank 1 lacks the engine, and says so first
        self.assertEqual((returned, out), (2 if there else 3, ""), lines)
        for line in lines:
            self.assertIn("rank 1 has --engine cuda, rank 0 has cpu" if there else "--engine cuda", line)


class OnGpus(CommandTest):
    def devices(self):
        info = self.report("info")
        if not info["engines"]["cuda"] or info["engines"]["cuda"]["problem"]:
            self.skipTest("no usable CUDA device")
        return len(info["devices"])

    def across(self, processes, *flags):
        returned, out, lines = mpirun.run((processes, [*VERIFY, *flags, "--json", "-"]))
        self.assertEqual((returned, lines), (0, []), out)
        report = json.loads(out)
        here = self.report("verify", "--shape", "65x320", "--tokens", 13, "--no-reference", "--layouts", "tp1")
        for row in report["layouts"]:
            self.assertEqual(row["status"], "ok")
            self.assertEqual(row["digest"], here["layouts"][0]["digest"])
        return report

    def test_ranks_that_share_gpus_over_mpi(self):
        self.devices()
        self.across(4, "--transport", "mpi", "--layouts", "tp2,tp2+sp,tp4,tp2+cp2+sp")

    def processes_over_nccl(self):
        devices = self.devices()
        if not self.report("info")["transports"]["nccl"]:
            self.skipTest("no NCCL")
        return min(devices, 8)

    def test_a_rank_a_gpu_over_nccl(self):
        processes = self.processes_over_nccl()
        report = self.across(processes, "--transport", "nccl", "--layouts", f"tp{processes},cp{processes}")
        self.assertEqual(report["environment"]["transport"], "nccl")

    def test_times_of_layouts(self):
        processes = self.processes_over_nccl()
        layouts = ["tp1", *[f"tp{processes}", f"tp{processes}+sp", f"cp{processes}"][:3 * (processes > 1)]]
        for overlap in ["auto", "off"]:
            with self.subTest(overlap=overlap):
                returned, out, lines = mpirun.run((processes, [*BENCH, "--transport", "nccl", "--layouts", ",".join(layouts),
                                                               "--overlap", overlap, "--json", "-"]))
                self.assertEqual((returned, lines), (0, []), out)
                rows = json.loads(out)["rows"]
                self.assertEqual([(row["direction"], row["layout"], row["tokens"]) for row in rows],
                                 [(direction, layout, tokens) for direction in ["forward", "both"] for layout in layouts
                                  for tokens in [3, 13]])
                for row in rows:
                    self.assertGreater(row["ours_us"]["min"], 0)
                    self.assertEqual([row["exposed_us"] is None, row["moved"] is None], [row["layout"] == "tp1"] * 2)


if __name__ == "__main__":
    command.main()
