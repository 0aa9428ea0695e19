"""Every bad input ends in exit code 2 and one line on stderr that names the culprit."""
import json
import os
import struct

import command
from command import CommandTest, header_of, layer_tensors, safetensors, tensor, write, write_checkpoint, write_config

GOOD = {"x": tensor("BF16", [7, 64])}


class SafetensorsFiles(CommandTest):
    """digest, compare and run read files with one reader; digest stands for it."""

    def refuse(self, data, *culprits):
        path = write(self.path("bad.safetensors"), data)
        self.assert_refused(["digest", path], ["bad.safetensors", *culprits])
        good = write(self.path("good.safetensors"), safetensors(GOOD))
        self.assert_refused(["compare", good, path], ["bad.safetensors", *culprits])

    def test_no_file(self):
        self.assert_refused(["digest", self.path("absent.safetensors")], ["absent.safetensors"])

    def test_a_folder(self):
        self.assert_refused(["digest", self.folder], [self.folder])

    def test_empty(self):
        self.refuse(b"")

    def test_truncated_length(self):
        self.refuse(b"\x10\x00\x00")

    def test_truncated_header(self):
        self.refuse(safetensors(GOOD)[:30])

    def test_truncated_data(self):
        self.refuse(safetensors(GOOD)[:-5])

    def test_more_data_than_the_header_says(self):
        self.refuse(safetensors(GOOD) + b"more")

    def test_oversized_header(self):
        self.refuse(struct.pack("<Q", 1 << 62) + b"{}")
        self.refuse(struct.pack("<Q", (1 << 64) - 1) + b"{}")

    def test_header_that_is_no_json(self):
        self.refuse(safetensors(GOOD, header="not json at all"))

    def test_overlapping_tensors(self):
        tensors = {"a": tensor("BF16", [2, 4]), "b": tensor("BF16", [2, 4])}
        header = header_of(tensors)
        header["b"]["data_offsets"] = [8, 24]
        self.refuse(safetensors(tensors, header=header), "b")

    def test_hole_between_tensors(self):
        tensors = {"a": tensor("BF16", [2, 4]), "b": tensor("BF16", [2, 4])}
        header = header_of(tensors)
        header["b"]["data_offsets"] = [20, 36]
        self.refuse(safetensors(tensors, header=header) + b"1234", "b")

    def test_offsets_that_lie_about_the_shape(self):
        header = header_of(GOOD)
        header["x"]["shape"] = [7, 63]
        self.refuse(safetensors(GOOD, header=header), "x")

    def test_offsets_beyond_the_file(self):
        header = header_of(GOOD)
        header["x"]["data_offsets"] = [0, 1 << 40]
        self.refuse(safetensors(GOOD, header=header), "x")

    def test_shape_whose_product_overflows(self):
        header = header_of(GOOD)
        header["x"]["shape"] = [1 << 40, 1 << 40]
        self.refuse(safetensors(GOOD, header=header), "x")

    def test_negative_shape(self):
        header = header_of(GOOD)
        header["x"]["shape"] = [-7, -64]
        self.refuse(safetensors(GOOD, header=header), "x")

    def test_unknown_dtype(self):
        header = header_of(GOOD)
        header["x"]["dtype"] = "BF17"
        self.refuse(safetensors(GOOD, header=header), "x", "BF17")

    def test_duplicate_keys(self):
        entry = json.dumps(header_of(GOOD)["x"])
        self.refuse(safetensors(GOOD, header='{"x":%s,"x":%s}' % (entry, entry)), "x")

    def test_names_with_line_ends_stay_on_one_line(self):
        header = {"a\nb\r\x1b[31m": {"dtype": "BF16", "shape": [7, 63], "data_offsets": [0, 896]}}
        self.refuse(safetensors(GOOD, header=header))

    def test_git_lfs_pointer(self):
        self.refuse("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "LFS")


class Contracts(CommandTest):
    def test_unknown_name(self):
        self.assert_refused(["verify", "--contract", "bf17-tree-v1"], ["bf17-tree-v1"])
        self.assert_refused(["contract", "bf17-tree-v1"], ["bf17-tree-v1"])

    def test_unknown_field(self):
        self.assert_refused(["verify", "--contract", "sm90-v1,nodes=bf16"], ["nodes"])
        self.assert_refused(["bench", "--contract", "sm90-v1,nodes=bf16"], ["nodes"])

    def test_bad_value(self):
        self.assert_refused(["contract", "sm90-v1,I=halve:x"], ["I"])
        self.assert_refused(["contract", "sm90-v1,I=max:8"], ["I"])
        self.assert_refused(["contract", "sm90-v1,T=block:40"], ["T"])

    def test_field_given_twice(self):
        self.assert_refused(["contract", "sm90-v1,node=bf16,node=f32"], ["node"])

    def test_canonical_string_that_lacks_a_field(self):
        self.assert_refused(["contract", "samebits/1;leaf=fma"], ["H"])


class Sizes(CommandTest):
    def test_tokens_that_are_no_count(self):
        for text in ["-1", "seven", "1.5", "9223372036854775808", "99999999999999999999999"]:
            self.assert_refused(["verify", f"--tokens={text}"], ["--tokens", text])

    def test_tokens_that_overflow(self):
        self.assert_refused(["verify", "--tokens", "9223372036854775807"], ["9223372036854775807"])
        self.assert_refused(["verify", "--shape", "64x208", "--tokens", 1 << 60], [str(1 << 60)])
        self.assert_refused(["bench", "--tokens", f"8,{1 << 60}"], [str(1 << 60)])
        self.assert_refused(["contract", "sm90-v1", "--tokens", 1 << 60], [str(1 << 60)])

    def test_shapes_that_overflow(self):
        self.assert_refused(["verify", "--shape", "4294967296x4294967296"], ["4294967296x4294967296"])

    def test_shapes_that_are_none(self):
        for text in ["qwen3-9b", "64", "0x64", "64x", "axb"]:
            self.assert_refused(["verify", "--shape", text], ["--shape", text])

    def test_more_memory_than_there_is(self):
        self.assert_refused(["verify", "--shape", "4194304x4194304"], ["memory"], code=3)


class Layouts(CommandTest):
    def test_unknown_layout(self):
        for text in ["tp0", "tp2+xp2", "tp", "2", "tp2,", "tp2+tp2"]:
            self.assert_refused(["verify", "--shape", "64x208", "--layouts", text], ["layout"])

    def test_columns_that_would_cut_inside_a_leaf(self):
        # One leaf: no TP degree but 1 cuts between leaves.
        self.assert_refused(["verify", "--shape", "64x208", "--tokens", 7, "--contract", "hf-sm90-v1", "--layouts", "tp2",
                             "--down", "columns"], ["columns", "2", "1"])
        # Eight leaves: 1 to 8.
        self.assert_refused(["verify", "--shape", "64x256", "--tokens", 7, "--contract", "sm90-v1", "--layouts", "tp16",
                             "--down", "columns"], ["columns", "16", "1 to 8"])

    def test_every_layout_refused(self):
        done = command.run("verify", "--shape", "64x208", "--tokens", 7, "--contract", "hf-sm90-v1", "--down", "columns")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("refused", done.stdout)

    def test_more_ranks_than_threads_can_play(self):
        self.assert_refused(["verify", "--shape", "64x208", "--tokens", 7, "--layouts", "tp4096+cp4096"], ["tp4096+cp4096"])


class Flags(CommandTest):
    def test_usage(self):
        self.assert_refused([], ["verb", "verify", "info"])
        self.assert_refused(["verifi"], ["verifi"])
        self.assert_refused(["verify", "--tokns", "8"], ["--tokns"])
        self.assert_refused(["verify", "--tokens"], ["--tokens"])
        self.assert_refused(["verify", "--down", "diagonal"], ["--down", "diagonal"])
        self.assert_refused(["verify", "--isa", "sse"], ["--isa", "sse"])
        self.assert_refused(["verify", "--threads", "-2"], ["--threads"])
        self.assert_refused(["verify", "--seed", "x"], ["--seed"])
        self.assert_refused(["verify", "--checkpoint", self.folder], ["--layer"])
        self.assert_refused(["verify", "--checkpoint", self.folder, "--layer", "0", "--shape", "64x208"], ["--shape"])
        self.assert_refused(["compare", "only-one"], ["B"])
        self.assert_refused(["bench", "--direction", "up"], ["--direction", "up"])
        self.assert_refused(["bench", "--tokens", "0"], ["--tokens"])
        self.assert_refused(["bench", "--serve"], ["--serve", "--engine cuda"])
        self.assert_refused(["verify", "--shape", "64x208", "--batches", "33"], ["--batches 33", "32"])
        self.assert_refused(["verify", "--shape", "64x208", "--batches", "0"], ["--batches 0"])
        self.assert_refused(["verify", "--shape", "64x208", "--micro-batches", "0"], ["--micro-batches 0"])
        self.assert_refused(["verify", "--timeout", "5"], ["--timeout", "mpi"])
        self.assert_refused(["bench", "--transport", "nccl"], ["--transport nccl", "--engine cpu", "--engine cuda"])
        self.assert_refused(["bench", "--transport", "nccl", "--engine", "cuda", "--serve"], ["--serve", "--transport"])
        self.assert_refused(["bench", "--transport", "mpi", "--engine", "cuda"], ["bench", "mpi", "cuda"])
        self.assert_refused(["bench", "--transport", "mpi", "--explain"], ["--explain", "--transport"])
        for flags in [[], ["--transport", "nccl"], ["--transport", "mpi"], ["--serve"]]:
            self.assert_refused(["bench", "--engine", "hip", *flags], ["--engine hip", "cpu and cuda"])
        for verb in [["verify"], ["run", "--checkpoint", "x", "--layer", "0", "--input", "x", "--output", "y"]]:
            self.assert_refused([*verb, "--transport", "nccl"], ["--transport nccl", "--engine cpu", "--engine cuda", "--transport mpi"])
        self.assert_refused(["verify", "--recording", "x"], ["--recording", "--checkpoint"])

    def test_what_this_build_or_machine_lacks_is_the_environment(self):
        self.assert_refused(["verify", "--engine", "cuda", "--device", "99"], ["cuda"], code=3)
        self.assert_refused(["verify", "--engine", "hip"], ["hip"], code=3)
        if not self.report("info")["transports"]["mpi"]:
            self.assert_refused(["verify", "--transport", "mpi"], ["mpi"], code=3)


class Recordings(CommandTest):
    def test_what_is_no_recording(self):
        write_checkpoint(self.path("model"), layer_tensors(64, 208))
        rows = {name: tensor("BF16", [4, 64]) for name in ["x", "dy", "y"]}
        for broken, culprit in [({"y": None}, "no results"), ({"dy": None}, "dy"), ({"dy": tensor("BF16", [3, 64])}, "'dy'"),
                                ({"y": tensor("BF16", [4, 65])}, "'y'"), ({"y": tensor("F32", [4, 64])}, "'y'"),
                                ({"d_down": tensor("BF16", [208, 64])}, "'d_down'")]:
            tensors = {name: one for name, one in {**rows, **broken}.items() if one is not None}
            write(self.path("recording"), safetensors(tensors))
            self.assert_refused(["verify", "--checkpoint", self.path("model"), "--layer", 0, "--recording", self.path("recording")],
                                [self.path("recording"), culprit])


class Outputs(CommandTest):
    def run_arguments(self, output):
        write_checkpoint(self.path("model"), layer_tensors(64, 208))
        write(self.path("x.safetensors"), safetensors(GOOD))
        return ["run", "--checkpoint", self.path("model"), "--layer", 0, "--input", self.path("x.safetensors"), "--output", output]

    def test_unwritable_output(self):
        self.assert_refused(self.run_arguments(self.path("absent/y.safetensors")), ["absent/y.safetensors"])

    def test_output_that_is_a_folder(self):
        os.mkdir(self.path("y"))
        self.assert_refused(self.run_arguments(self.path("y")), [self.path("y")])
        self.assertEqual(sorted(os.listdir(self.folder)), ["model", "x.safetensors", "y"])

    def test_unwritable_report(self):
        report = self.path("absent/report.json")
        self.assert_refused(["verify", "--shape", "64x208", "--tokens", 1, "--json", report], [report])
        self.assert_refused(["digest", self.path("x"), "--json", report], [report])
        self.assert_refused(["contract", "--json", report], [report])

    def test_nothing_partial_is_left(self):
        report = self.path("report.json")
        self.assert_refused(["digest", self.path("absent"), "--json", report], ["absent"])
        self.assertEqual(os.listdir(self.folder), [])


class Checkpoints(CommandTest):
    def refuse(self, culprits, layer=0, x=None, dy=None):
        """Both verbs that take a checkpoint, or `run` alone when the inputs are at fault."""
        write(self.path("x.safetensors"), safetensors({"x": x or GOOD["x"]} if x != "absent" else {"y": GOOD["x"]}))
        arguments = ["run", "--checkpoint", self.path("model"), "--layer", layer, "--input", self.path("x.safetensors"),
                     "--output", self.path("y.safetensors")]
        if dy is not None:
            arguments += ["--grad", write(self.path("dy.safetensors"), safetensors(dy))]
        self.assert_refused(arguments, culprits)
        self.assertFalse(os.path.exists(self.path("y.safetensors")))
        if x is None and dy is None:
            self.assert_refused(["verify", "--checkpoint", self.path("model"), "--layer", layer], culprits)

    def checkpoint(self, tensors=None, **config):
        write_checkpoint(self.path("model"), layer_tensors(64, 208) if tensors is None else tensors, **config)

    def test_no_folder(self):
        self.refuse(["model"])

    def test_no_weights(self):
        os.mkdir(self.path("model"))
        write_config(self.path("model"), 64, 208)
        self.refuse(["model"])

    def test_absent_layer(self):
        self.checkpoint()
        self.refuse(["layer 7"], layer=7)

    def test_layer_that_is_no_number(self):
        self.checkpoint()
        self.refuse(["--layer", "first"], layer="first")

    def test_missing_tensor(self):
        tensors = layer_tensors(64, 208)
        del tensors["model.layers.0.mlp.up_proj.weight"]
        self.checkpoint(tensors)
        self.refuse(["model.layers.0.mlp.up_proj.weight"])

    def test_wrong_dtype(self):
        tensors = layer_tensors(64, 208)
        tensors["model.layers.0.mlp.up_proj.weight"] = tensor("I32", [208, 64])
        self.checkpoint(tensors)
        self.refuse(["up_proj", "I32"])

    def test_wrong_shape(self):
        tensors = layer_tensors(64, 208)
        tensors["model.layers.0.mlp.down_proj.weight"] = tensor("BF16", [64, 207])
        self.checkpoint(tensors)
        self.refuse(["down_proj", "[64, 207]"])

    def test_shards_of_unequal_checkpoints(self):
        # gate and up of one model, down of another: the index sends readers to both.
        folder = self.path("model")
        os.mkdir(folder)
        write_config(folder, 64, 208)
        ours, other = layer_tensors(64, 208), layer_tensors(96, 224)
        down = "model.layers.0.mlp.down_proj.weight"
        files = {"model-00001-of-00002.safetensors": {name: ours[name] for name in ours if name != down},
                 "model-00002-of-00002.safetensors": {down: other[down]}}
        weight_map = {}
        for name, tensors in files.items():
            write(os.path.join(folder, name), safetensors(tensors))
            weight_map.update({tensor_name: name for tensor_name in tensors})
        write(os.path.join(folder, "model.safetensors.index.json"), json.dumps({"metadata": {}, "weight_map": weight_map}))
        self.refuse(["model-00002-of-00002.safetensors", "down_proj"])

    def test_index_that_names_an_absent_shard(self):
        folder = self.path("model")
        os.mkdir(folder)
        write_config(folder, 64, 208)
        weight_map = {name: "model-00001-of-00001.safetensors" for name in layer_tensors(64, 208)}
        write(os.path.join(folder, "model.safetensors.index.json"), json.dumps({"weight_map": weight_map}))
        self.refuse(["model-00001-of-00001.safetensors"])

    def test_other_blocks(self):
        self.checkpoint(hidden_act="gelu")
        self.refuse(["gelu"])
        self.checkpoint(mlp_bias=True)
        self.refuse(["bias"])

    def test_input_without_x(self):
        self.checkpoint()
        self.refuse(["x.safetensors", "'x'"], x="absent")

    def test_x_of_another_kind(self):
        self.checkpoint()
        self.refuse(["x.safetensors", "I32"], x=tensor("I32", [7, 64]))
        self.refuse(["x.safetensors", "[7, 63]", "64"], x=tensor("BF16", [7, 63]))
        self.refuse(["x.safetensors", "[64]"], x=tensor("BF16", [64]))

    def test_dy_of_another_kind(self):
        self.checkpoint()
        self.refuse(["dy.safetensors", "'dy'"], dy=GOOD)
        self.refuse(["dy.safetensors", "6", "7"], dy={"dy": tensor("BF16", [6, 64])})
        self.refuse(["dy.safetensors", "[7, 65]"], dy={"dy": tensor("BF16", [7, 65])})


class Comparisons(CommandTest):
    def test_results_of_two_contracts_are_never_compared(self):
        paths = []
        for name in ["bf16-tree-v1", "sm90-v1"]:
            text = self.report("contract", name)["contract"]["canonical"]
            paths.append(write(self.path(name), safetensors(GOOD, {"contract": text})))
        self.assert_refused(["compare", *paths], ["leaf=fma", "leaf=sm90"])


if __name__ == "__main__":
    command.main()
