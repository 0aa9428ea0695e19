"""The rows and the table of bench/tp_ratio.py, its layouts, and its refusals."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import tables
import tp_ratio
import tp_rows
from layouts import Layout, parse_layout, rotation

SCRIPT = os.path.abspath(tp_ratio.__file__)
COMMAND = None


def spread(median):
    return {"median": median, "p95": median + 2, "min": median - 1, "max": median + 3}


def ours(layout, direction, tokens, median, exposed=None, moved=None):
    return {"layout": layout, "direction": direction, "tokens": tokens, "ours_us": spread(median),
            "exposed_us": exposed and spread(exposed), "moved": moved}


def theirs(layout, direction, tokens, median):
    return {"layout": layout, "direction": direction, "tokens": tokens, "us": spread(median)}


class Layouts(unittest.TestCase):
    def test_names(self):
        for name, layout in [("tp1", Layout()), ("tp2", Layout(2)), ("tp2+sp", Layout(2, 1, True)), ("cp2", Layout(1, 2)),
                             ("tp2+cp4+sp", Layout(2, 4, True))]:
            self.assertEqual(parse_layout(name), layout)
        self.assertEqual(parse_layout("tp2+cp4").ranks, 8)
        for name in ["", "sp", "tp", "+cp2", "cp2+tp2", "tp2 "]:
            with self.assertRaises(ValueError):
                parse_layout(name)

    def test_rows_of_a_rank(self):
        self.assertEqual([parse_layout(name).rows(77) for name in ["tp2", "tp2+sp", "cp2", "tp2+cp2+sp"]], [77, 39, 39, 20])
        self.assertEqual(parse_layout("cp2").rows(1), 1)

    def test_rotation(self):
        self.assertEqual(rotation(151_000_000, 60_000_000, 8), (3, 6))
        self.assertEqual(rotation(302_000_000, 50_000_000, 8), (2, 6))
        self.assertEqual(rotation(302_000_000, 50_000_000, 8192), (2, 2))
        self.assertEqual(rotation(1_000, 50_000_000, 1), (16, 16))


class Rows(unittest.TestCase):
    MOVED = {"sent": 8192, "received": 16384, "collectives": 2}

    def rows(self):
        reports = {
            ("a", "off"): {"rows": [ours("tp2", "forward", 1, 60, 12, self.MOVED), ours("tp1", "forward", 1, 90)]},
            ("a", "auto"): {"rows": [ours("tp2", "forward", 1, 50, 8, self.MOVED), ours("tp1", "forward", 1, 90)]},
            ("b", "off"): {"rows": [ours("tp2", "forward", 1, 70, 9, self.MOVED)]},
        }
        return tp_rows.join_rows(reports, [theirs("tp1", "forward", 1, 100), theirs("tp2", "forward", 1, 64)], ["b", "a"])

    def test_each_beside_its_own(self):
        rows = self.rows()
        self.assertEqual([(row["contract"], row["layout"]) for row in rows], [("b", "tp2"), ("a", "tp2"), ("a", "tp1")])
        row = rows[1]
        self.assertEqual((row["serial_of_hf_tp1"], row["overlapped_of_hf_tp1"]), (0.6, 0.5))
        self.assertEqual((row["serial_of_pytorch"], row["overlapped_of_pytorch"]), (60 / 64, 50 / 64))
        self.assertEqual((row["serial_exposed_us"]["median"], row["overlapped_exposed_us"]["median"]), (12, 8))
        self.assertEqual(row["moved"], self.MOVED)
        json.dumps(rows)

    def test_what_was_not_timed_is_null(self):
        row = self.rows()[0]
        self.assertIsNone(row["overlapped_us"])
        self.assertIsNone(row["overlapped_of_pytorch"])
        rows = tp_rows.join_rows({("a", "auto"): {"rows": [ours("tp2", "both", 8, 50)]}}, [], ["a"])
        self.assertIsNone(rows[0]["overlapped_of_hf_tp1"])

    def test_the_table(self):
        cells = [tp_rows.cells_of(row) for row in self.rows()]
        self.assertEqual(cells[0], ["b", "tp2", "forward", 1, "70.0", "-", "100.0", "64.0", "0.70", "1.09", "9.0", "16.4 kB"])
        self.assertEqual(cells[1], ["a", "tp2", "forward", 1, "60.0", "50.0", "100.0", "64.0", "0.50", "0.78", "8.0", "16.4 kB"])
        self.assertEqual(cells[2][-2:], ["-", "-"])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            tables.print_table(tp_rows.HEADER, cells)
        lines = said.getvalue().splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual(len({len(line) for line in lines}), 1)

    def test_sizes(self):
        self.assertEqual([tp_rows.size_text(size) for size in [0, 999, 1000, 12_600_000, 2_000_000_000]],
                         ["0 B", "999 B", "1.0 kB", "12.6 MB", "2.0 GB"])


class Run(unittest.TestCase):
    """Both sides are played."""

    HEAD = {"schema": "samebits.tp_ratio/1", "device": "a GPU", "driver": "1", "torch": "2", "transformers": "3", "nccl": "2.28.9"}

    def test_from_both_sides_to_the_report(self):
        def samebits(_args, size, contract, overlap, _folder):
            self.assertEqual(os.environ["NCCL_NVLS_ENABLE"], "0")
            rows = [ours("tp2", "forward", 8, 50 if overlap == "auto" else 60, 9, Rows.MOVED)]
            return {"version": "0", "environment": {"nccl": {"version": "2.28.9"}}, "notes": [], "ceiling": {}, "rows": rows}, f"{contract} {size}"

        torch = {"head": self.HEAD, "rows": [theirs("tp1", "forward", 8, 100), theirs("tp2", "forward", 8, 80)]}, "torch_layouts.py"
        environment = {name: value for name, value in os.environ.items() if name != "NCCL_NVLS_ENABLE"}
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, environment, clear=True), \
                mock.patch.multiple(tp_ratio, gpu_count=lambda binary: 2, run_torch=lambda *_: torch, run_samebits=samebits), \
                mock.patch.object(sys, "argv", ["tp_ratio.py", "--layouts", "tp2", "--json", os.path.join(folder, "out")]), \
                contextlib.redirect_stdout(said):
            tp_ratio.main()
            with open(os.path.join(folder, "out"), encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual(report["commands"], ["torch_layouts.py", "sm90-v1 2", "sm90-v1 2", "hf-sm90-v1 2", "hf-sm90-v1 2"])
        self.assertEqual([(row["contract"], row["overlapped_of_pytorch"]) for row in report["rows"]],
                         [("sm90-v1", 50 / 80), ("hf-sm90-v1", 50 / 80)])
        self.assertEqual((report["gpus"], report["nvls"]), (2, "0"))
        self.assertEqual(len(said.getvalue().splitlines()), 4)


class Script(unittest.TestCase):
    def refused(self, *arguments):
        done = subprocess.run([sys.executable, "-B", SCRIPT, *arguments], capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_refusals(self):
        self.assertIn("sp2", self.refused("--layouts", "tp2,sp2"))
        self.assertIn("tp5", self.refused("--layouts", "tp5"))
        self.assertIn("--overlaps", self.refused("--overlaps", "on"))
        self.assertIn("does not run", self.refused("--binary", "/no/such/file"))

    def test_too_few_gpus(self):
        self.assertIn("tp512 wants 512 GPUs", self.refused("--binary", COMMAND, "--layouts", "tp512"))

    def test_the_command(self):
        with mock.patch.object(sys, "argv", ["tp_ratio.py", "--binary", "samebits", "--directions", "both", "--layouts", "tp2,cp4"]):
            args, size = tp_ratio.parse_arguments()
        command = tp_ratio.samebits_command(args, size, "sm90-v1", "off", "out")
        self.assertEqual(command[command.index("-np") + 1], "4")
        for flag, value in [("--transport", "nccl"), ("--direction", "both"), ("--layouts", "tp2,cp4"), ("--overlap", "off"),
                            ("--shape", "4096x12288"), ("--json", "out")]:
            self.assertEqual(command[command.index(flag) + 1], value)


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main(verbosity=2)
