"""The promises of the interface: JSON keys, files in and out, exit codes 0 and 1."""
import os
import re
import unittest
from pathlib import Path

import command
from command import CommandTest, layer_tensors, read_safetensors, run, safetensors, tensor, write, write_checkpoint

SIX = ["output", "training_output", "d_hidden", "d_gate", "d_up", "d_down"]


class Help(CommandTest):
    def test_help_has_examples(self):
        for arguments in [["--help"], ["verify", "--help"], ["bench", "--help"], ["run", "--help"], ["contract", "--help"]]:
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("samebits verify" if arguments == ["--help"] else f"samebits {arguments[0]} ", done.stdout)
            self.assertIn("Example", done.stdout)

    def test_version(self):
        done = run("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        header = (Path(__file__).resolve().parents[3] / "include" / "samebits" / "version.hpp").read_text()
        version = re.search(r'kVersion = "(\d+\.\d+\.\d+)"', header)[1]
        self.assertEqual(done.stdout, f"samebits {version}\n")
        self.assertEqual(self.report("info")["version"], version)


class Reports(CommandTest):
    def assert_head(self, report, verb):
        self.assertEqual(list(report)[:3], ["schema", "command", "version"])
        self.assertEqual((report["schema"], report["command"]), ("samebits.report/1", verb))
        for key in ["os", "compiler", "cpu", "time", "command_line"]:
            self.assertTrue(report["environment"][key])

    def test_verify(self):
        report = self.report("verify", "--shape", "64x208", "--tokens", 7, "--layouts", "tp2,tp2+cp2+sp", "--accuracy",
                             "--micro-batches", 3)
        self.assert_head(report, "verify")
        self.assertEqual(list(report), ["schema", "command", "version", "contract", "environment", "shape", "layouts", "invariance",
                                        "power", "accuracy", "recording", "golden", "reference", "ok"])
        self.assertEqual(report["contract"]["name"], "bf16-tree-v1")
        self.assertEqual(report["contract"]["fingerprint"], "23b7fa71e83beffe")
        self.assertEqual(report["shape"], {"tokens": 7, "hidden": 64, "intermediate": 208, "source": "64x208, seed 0"})
        self.assertEqual([row["name"] for row in report["layouts"]], ["tp1", "tp2", "tp2+cp2+sp"])
        row = report["layouts"][2]
        self.assertEqual(list(row), ["name", "tp", "cp", "sp", "status", "reason", "mismatch", "elements", "digest", "seconds"])
        self.assertEqual((row["tp"], row["cp"], row["sp"], row["status"], row["reason"]), (2, 2, True, "ok", None))
        for key in ["mismatch", "elements", "digest"]:
            self.assertEqual(list(row[key]), SIX)
        self.assertEqual(list(report["power"]), SIX)
        self.assertEqual((report["invariance"]["repeat"], report["invariance"]["row_vs_batch"]), (0, 0))
        self.assertEqual(report["invariance"]["micro_batches"], {"calls": 3, "gradients": 0})
        self.assertEqual(list(report["accuracy"]), ["y", "d_hidden", "d_gate", "d_up", "d_down"])
        for norms in report["accuracy"].values():
            self.assertEqual(list(norms), ["rel_l2", "max_abs", "mean_abs"])
            self.assertGreater(norms["rel_l2"], 0.0005)
            self.assertLess(norms["rel_l2"], 0.02)
        self.assertEqual(report["golden"]["differing"], 0)
        self.assertEqual(set(report["reference"]["mismatch"].values()), {0})
        environment = report["environment"]
        for key in ["engine", "transport", "isa", "threads", "seconds", "peak_rss_bytes"]:
            self.assertTrue(environment[key])
        self.assertIs(report["ok"], True)

    def test_bench(self):
        report = self.report("bench", "--shape", "64x208", "--tokens", "1,7", "--direction", "all", "--layouts", "tp1,tp2",
                             "--repeats", 3)
        self.assert_head(report, "bench")
        self.assertEqual([(row["direction"], row["tokens"], row["layout"]) for row in report["rows"]],
                         [(direction, tokens, layout) for direction in ["forward", "both"] for layout in ["tp1", "tp2"]
                          for tokens in [1, 7]])
        for row in report["rows"]:
            self.assertEqual(list(row["ours_us"]), ["median", "p95", "min", "max"])
            self.assertLessEqual(row["ours_us"]["min"], row["ours_us"]["median"])
            self.assertEqual(row["contract"], "bf16-tree-v1")
            self.assertEqual(row["exposed_us"] is None, row["layout"] == "tp1")
            if row["layout"] != "tp1":
                self.assertGreater(row["exposed_us"]["min"], 0)
            if row["baseline"] is None:
                self.assertEqual((row["baseline_us"], row["ratio"]), (None, None))
            else:
                self.assertAlmostEqual(row["ratio"], row["ours_us"]["median"] / row["baseline_us"]["median"])
        self.assertGreater(report["ceiling"]["read_bytes_per_second"], 0)
        self.assertGreater(report["ceiling"]["flops_per_second"]["plain"], 0)

    def test_bench_of_ours_alone(self):
        report = self.report("bench", "--shape", "64x208", "--tokens", "2", "--repeats", 2, "--no-baseline")
        self.assertEqual([(row["baseline"], row["baseline_us"]) for row in report["rows"]], [(None, None)])

    def test_bench_explained(self):
        # Seven tokens are one leaf, which two context ranks cut.
        report = self.report("bench", "--explain", "--shape", "64x256", "--contract", "sm90-v1", "--gradients", "exchange", "--tokens", 7,
                             "--direction", "both", "--layouts", "tp2,cp2", "--links", "a=2:3,b=1:0")
        self.assert_head(report, "bench --explain")
        self.assertEqual(list(report), ["schema", "command", "version", "environment", "contract", "shape", "links", "rows"])
        self.assertEqual(report["environment"]["engine"], "cpu")
        self.assertEqual(report["shape"], {"name": "64x256", "hidden": 64, "intermediate": 256})
        self.assertEqual([link["name"] for link in report["links"]], ["a", "b"])
        tp2, cp2 = report["rows"]
        self.assertEqual(list(tp2), ["layout", "tokens", "direction", "rank", "flops", "weight_bytes", "collectives"])
        cover = tp2["collectives"][0]
        self.assertEqual(list(cover), ["what", "kind", "ranks", "over", "times", "sent", "received", "between_machines", "seconds"])
        self.assertEqual((cover["what"], cover["sent"]), ("cover of y", 7 * 64 * 4))  # half of I is one node
        self.assertAlmostEqual(cover["seconds"]["a"], 3e-6 + cover["sent"] / 2e9, places=12)
        self.assertAlmostEqual(cover["seconds"]["b"], cover["sent"] / 1e9, places=12)
        self.assertEqual(list(cp2), ["layout", "tokens", "direction", "refused"])

    def test_batches_of_the_first_rows(self):
        report = self.report("verify", "--shape", "64x208", "--tokens", 9, "--layouts", "tp1", "--batches", "1,4,9")
        self.assertEqual(report["invariance"]["batches"],
                         [{"tokens": tokens, "output": 0, "d_hidden": 0} for tokens in [1, 4, 9]])
        self.assertIsNone(report["recording"])

    def test_contract(self):
        report = self.report("contract", "sm90-v1", "--shape", "qwen3-8b", "--tokens", 4096)
        self.assert_head(report, "contract")
        self.assertEqual([(axis["axis"], axis["leaves"]) for axis in report["axes"]],
                         [("hidden", 1), ("intermediate", 8), ("tokens", 2)])
        self.assertEqual(report["axes"][1]["leaf_lengths"], [{"length": 1536, "count": 8}])
        self.assertEqual(report["down_columns"], {"equal": [1, 2, 4, 8], "most": 8})
        presets = self.report("contract")["presets"]
        self.assertEqual([preset["name"] for preset in presets],
                         ["bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1", "gfx942-v1"])

    def test_info(self):
        report = self.report("info")
        self.assert_head(report, "info")
        self.assertIn("plain", report["engines"]["cpu"]["isa"])
        self.assertTrue(report["transports"]["local"])
        self.assertEqual(report["transports"]["mpi"], bool(report["libraries"]["mpi"]))
        self.assertEqual(report["transports"]["nccl"], bool(report["libraries"]["nccl"] and (report["engines"]["cuda"] or report["engines"]["hip"])))
        self.assertIn("fmt", report["libraries"])
        self.assertRegex(run("info").stdout, r"transport callbacks +built: for host programs, C\+\+ or Python\n")

    def test_a_report_file_is_whole_and_alone(self):
        done = run("contract", "--json", self.path("report.json"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("bf16-tree-v1", done.stdout)  # the table stays when the report goes to a file
        self.assertEqual(os.listdir(self.folder), ["report.json"])

    def test_tables_fit_100_columns(self):
        done = run("verify", "--shape", "64x208", "--tokens", 7, "--accuracy")
        self.assertEqual(done.returncode, 0, done.stderr)
        table = [line for line in done.stdout.splitlines() if not line.startswith("control:")]
        self.assertLessEqual(max(map(len, table)), 100)
        # Short work shows no progress, and on a busy machine it is not short: nothing else is said.
        for line in re.split(r"[\r\n]+", done.stderr.strip()):
            self.assertRegex(line, r"^(\[\d+/\d+\] \d+ s  .*)?$")


class Files(CommandTest):
    """run, then compare and digest what it wrote."""

    def setUp(self):
        super().setUp()
        write_checkpoint(self.path("model"), layer_tensors(64, 208))
        write(self.path("x"), safetensors({"x": tensor("BF16", [2, 4, 64], 5), "dy": tensor("BF16", [8, 64], 6)}))

    def run_to(self, output, *flags, grad=True):
        arguments = ["run", "--checkpoint", self.path("model"), "--layer", 0, "--input", self.path("x"), "--output", self.path(output)]
        if grad:
            arguments += ["--grad", self.path("x")]
        return self.report(*arguments, *flags)

    def test_recording(self):
        self.run_to("a", "--contract", "f32-tree-v1")
        recording = {**read_safetensors(self.path("x")), **read_safetensors(self.path("a"))}
        names = ["y", "dx", "d_gate", "d_up", "d_down"]

        def verify(tensors, contract, code):
            write(self.path("recording"), safetensors(tensors))
            return self.report("verify", "--checkpoint", self.path("model"), "--layer", 0, "--recording", self.path("recording"),
                               "--contract", contract, "--layouts", "tp2", code=code)

        report = verify(recording, "f32-tree-v1", 0)
        self.assertEqual(report["shape"]["tokens"], 8)
        self.assertEqual(report["recording"]["mismatch"], dict.fromkeys(names, 0))
        self.assertEqual(report["recording"]["elements"]["d_down"], 64 * 208)

        dtype, shape, data = recording["dx"]
        spoiled = {**recording, "dx": (dtype, shape, data[:7] + bytes([data[7] ^ 1]) + data[8:])}
        self.assertEqual(verify(spoiled, "f32-tree-v1", 1)["recording"]["mismatch"], {**dict.fromkeys(names, 0), "dx": 1})
        del spoiled["dx"]
        self.assertEqual(list(verify(spoiled, "f32-tree-v1", 0)["recording"]["mismatch"]), ["y", "d_gate", "d_up", "d_down"])
        for count in verify(recording, "bf16-tree-v1", 1)["recording"]["mismatch"].values():
            self.assertGreater(count, 0)

    def test_round_trip(self):
        report = self.run_to("a")
        self.assertEqual([one["name"] for one in report["tensors"]], ["y", "dx", "d_gate", "d_up", "d_down"])
        self.assertEqual(report["shape"]["tokens"], 8)  # leading axes are flattened
        self.assertEqual(report["tensors"][4]["shape"], [64, 208])
        digests = self.report("digest", self.path("a"))
        self.assertEqual({one["name"]: one["digest"] for one in digests["tensors"]},
                         {one["name"]: one["digest"] for one in report["tensors"]})
        self.assertEqual(digests["file"]["contract"], report["contract"]["canonical"])
        for number, flags in enumerate([["--layouts", "tp2+cp2+sp"], ["--layouts", "tp3", "--down", "rows"], ["--threads", "1"],
                                        ["--isa", "plain"], ["--layouts", "cp2", "--split", "zigzag", "--gradients", "gather"]]):
            other = self.path(f"b{number}")
            self.run_to(f"b{number}", *flags)
            compared = self.report("compare", self.path("a"), other)
            self.assertTrue(compared["ok"], flags)
            self.assertEqual({one["status"] for one in compared["tensors"]}, {"equal"})

    def test_inference_writes_y_alone(self):
        self.run_to("a")
        report = self.run_to("y", grad=False)
        self.assertEqual([one["name"] for one in report["tensors"]], ["y"])
        compared = self.report("compare", self.path("a"), self.path("y"), code=1)
        self.assertEqual({one["name"]: one["status"] for one in compared["tensors"]},
                         {"y": "equal", "dx": "only in A", "d_gate": "only in A", "d_up": "only in A", "d_down": "only in A"})

    def test_f32_inputs_are_rounded_and_said_so(self):
        write(self.path("x32"), safetensors({"x": tensor("F32", [8, 64], 5)}))
        done = run("run", "--checkpoint", self.path("model"), "--layer", 0, "--input", self.path("x32"), "--output", self.path("y"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("F32 rounded", done.stdout)

    def test_gradients_as_f32(self):
        report = self.run_to("a", "--gradient-dtype", "f32")
        self.assertEqual({one["name"]: one["dtype"] for one in report["tensors"]},
                         {"y": "bf16", "dx": "bf16", "d_gate": "f32", "d_up": "f32", "d_down": "f32"})

    def test_contracts_are_not_mixed(self):
        self.run_to("a")
        self.run_to("b", "--contract", "sm90-v1")
        self.assert_refused(["compare", self.path("a"), self.path("b")], ["contract"])

    def test_mismatch(self):
        write(self.path("p"), safetensors({"y": ("BF16", [2, 2], bytes.fromhex("803f803f803f0000"))}))
        write(self.path("q"), safetensors({"y": ("BF16", [2, 2], bytes.fromhex("803f823f803f0080"))}))
        row = self.report("compare", self.path("p"), self.path("q"), code=1)["tensors"][0]
        self.assertEqual((row["status"], row["differing"], row["first"], row["a"], row["b"], row["max_ulps"]),
                         ("mismatch", 2, [0, 1], "0x3f80", "0x3f82", 2))

    def test_any_nan_equals_any_nan_in_recordings(self):
        nans = [("BF16", [1, 2], bytes.fromhex(word + "803f")) for word in ["c07f", "ff7f"]]
        for metadata, code in [(None, 0), ({"contract": self.report("contract", "sm90-v1")["contract"]["canonical"]}, 1)]:
            paths = [write(self.path(f"n{i}"), safetensors({"y": nan}, metadata)) for i, nan in enumerate(nans)]
            self.report("compare", *paths, code=code)

    def test_other_dtypes(self):
        write(self.path("p"), safetensors({"a": ("I64", [2, 1, 1], bytes(range(16))), "s": ("U8", [], b"\x05")}))
        write(self.path("q"), safetensors({"a": ("I64", [2, 1, 1], bytes(range(15)) + b"\xff"), "s": ("U8", [], b"\x05")}))
        rows = self.report("compare", self.path("p"), self.path("q"), code=1)["tensors"]
        self.assertEqual([(row["name"], row["status"], row["first"]) for row in rows],
                         [("a", "mismatch", [1, 0, 0]), ("s", "equal", None)])
        kinds = [(one["dtype"], one["shape"]) for one in self.report("digest", self.path("p"))["tensors"]]
        self.assertEqual(kinds, [("i64", [2, 1, 1]), ("u8", [])])

    def test_other_shape_is_a_mismatch(self):
        write(self.path("p"), safetensors({"y": tensor("BF16", [2, 3])}))
        write(self.path("q"), safetensors({"y": tensor("BF16", [3, 2])}))
        row = self.report("compare", self.path("p"), self.path("q"), code=1)["tensors"][0]
        self.assertEqual((row["status"], row["a"], row["b"]), ("other kind", "bf16:2x3", "bf16:3x2"))

    def test_verify_a_checkpoint(self):
        report = self.report("verify", "--checkpoint", self.path("model"), "--layer", 0, "--tokens", 5)
        self.assertTrue(report["ok"])
        self.assertIn("model.layers.0.mlp", report["shape"]["source"])


if __name__ == "__main__":
    command.main()
