"""Rank 0's baseline is told its core before any thread runs that could read the environment meanwhile."""
import json
import os
import unittest

import command
import mpirun
from command import CommandTest


class Baseline(CommandTest):
    def test_it_is_loaded_before_the_world_is_made(self):
        if "avx2" not in self.report("info")["engines"]["cpu"]["isa"]:
            self.skipTest("OpenBLAS is told its core where it could have vectors of 256 bits")
        folder = os.path.dirname(os.environ["SAMEBITS_OPENBLAS_STAND_IN"])
        path = os.pathsep.join([folder, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
        returned, _, lines = mpirun.run((2, ["bench", "--transport", "mpi", "--shape", "64x208", "--tokens", 2, "--layouts", "tp1,tp2",
                                             "--repeats", 2, "--json", self.path("report")]), LD_LIBRARY_PATH=path)
        self.assertEqual((returned, lines), (0, []))
        with open(self.path("report"), encoding="utf-8") as file:
            one, two = json.load(file)["rows"]
        self.assertRegex(one["baseline"], r"core \w+ told beside 0 other threads")
        self.assertIsNone(two["baseline"])


if __name__ == "__main__":
    command.main()
