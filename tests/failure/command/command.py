"""Running the command, and files for it. Standard library alone."""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

COMMAND = None  # the executable under test, set by main()


def run(*arguments, **options):
    """The finished process; text on both streams."""
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=600, **options)


class CommandTest(unittest.TestCase):
    """Each test has a folder of its own, `self.folder`."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def report(self, *arguments, code=0):
        """The JSON report of a run that exits with `code`."""
        done = run(*arguments, "--json", "-")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def assert_refused(self, arguments, culprits, code=2):
        """One line on stderr that names every culprit, nothing on stdout, and the exit code."""
        done = run(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("samebits: "), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for culprit in culprits:
            self.assertIn(culprit, done.stderr)


def bf16(count, seed=0):
    """`count` ordinary bf16 values, little-endian."""
    values = random.Random(seed)
    words = (0x3C00 | values.getrandbits(9) | values.getrandbits(1) << 15 for _ in range(count))
    return b"".join(struct.pack("<H", word) for word in words)


def f32(count, seed=0):
    values = random.Random(seed)
    return b"".join(struct.pack("<f", values.uniform(-1, 1)) for _ in range(count))


SIZES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "U8": 1, "I64": 8}


def tensor(dtype, shape, seed=0):
    """(dtype, shape, bytes) of a tensor with ordinary values."""
    count = 1
    for size in shape:
        count *= size
    if dtype == "BF16":
        return dtype, shape, bf16(count, seed)
    if dtype == "F32":
        return dtype, shape, f32(count, seed)
    return dtype, shape, random.Random(seed).randbytes(count * SIZES[dtype])


def header_of(tensors, metadata=None):
    header = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    return header


def safetensors(tensors, metadata=None, header=None):
    """The bytes of a file; `header` (a string or an object) replaces the true one."""
    if header is None:
        header = header_of(tensors, metadata)
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def read_safetensors(path):
    """The tensors of a file, as tensor() makes them."""
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: (one["dtype"], one["shape"], data[begin + one["data_offsets"][0]:begin + one["data_offsets"][1]])
            for name, one in header.items()}


def write(path, data):
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def layer_tensors(hidden, intermediate, layer=0, dtype="BF16"):
    prefix = f"model.layers.{layer}.mlp."
    return {
        prefix + "gate_proj.weight": tensor(dtype, [intermediate, hidden], 1),
        prefix + "up_proj.weight": tensor(dtype, [intermediate, hidden], 2),
        prefix + "down_proj.weight": tensor(dtype, [hidden, intermediate], 3),
    }


def write_checkpoint(folder, tensors, hidden=64, intermediate=208, **config):
    """A Hugging Face folder of one file."""
    os.makedirs(folder, exist_ok=True)
    write_config(folder, hidden, intermediate, **config)
    write(os.path.join(folder, "model.safetensors"), safetensors(tensors))
    return folder


def write_config(folder, hidden, intermediate, **config):
    values = {"model_type": "qwen3", "hidden_act": "silu", "hidden_size": hidden, "intermediate_size": intermediate,
              "num_hidden_layers": 1}
    values.update(config)
    write(os.path.join(folder, "config.json"), json.dumps(values))


def main():
    global COMMAND
    COMMAND = sys.argv.pop(1)
    unittest.main(module="__main__", verbosity=2)
