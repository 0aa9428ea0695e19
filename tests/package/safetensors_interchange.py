"""Files that samebits writes are read by the safetensors package with the same bytes, and the other way round.

usage: safetensors_interchange.py SAFETENSORS_WRITE SAFETENSORS_READ   (the helper programs of tests/support)
Exit code 77, which ctest takes for "skipped", where safetensors, numpy or ml_dtypes is not installed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import ml_dtypes
    import numpy as np
    import safetensors
    import safetensors.numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def seeded_x(seed: int, count: int) -> np.ndarray:
    """The bits of the seeded tensor x (docs/numerics.md section 6), written a second time and in another language."""
    bits = []
    for i in range(count):
        c = [i // 4 & 0xFFFFFFFF, i // 4 >> 32, seed >> 32, 0]
        key = [seed & 0xFFFFFFFF, 0]
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(p1 >> 32) ^ c[1] ^ key[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ key[1], p0 & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        w = c[i % 4]
        low = w & 0xFFFFFF
        zeros = (low & -low).bit_length() - 1 if low else 24
        bits.append((w >> 31) << 15 | (127 - zeros) << 7 | (w >> 24) & 0x7F)
    return np.array(bits, dtype=np.uint16)


def check_ours_is_read(writer: str, folder: Path) -> None:
    path = folder / "ours.safetensors"
    subprocess.run([writer, str(path)], check=True, stdout=subprocess.DEVNULL)
    tensors = safetensors.numpy.load_file(path)
    x = seeded_x(11, 5 * 33).reshape(5, 33)
    expected = {
        "x": (ml_dtypes.bfloat16, x),
        "columns": (ml_dtypes.bfloat16, x[:, 3:20]),
        "wide é": (np.float32, x[:2].astype(np.uint32) << 16),
        "none": (ml_dtypes.bfloat16, np.zeros((0, 7), np.uint16)),
    }
    assert set(tensors) == set(expected), set(tensors)
    for name, (dtype, bits) in expected.items():
        assert tensors[name].dtype == dtype, (name, tensors[name].dtype)
        assert tensors[name].shape == bits.shape, (name, tensors[name].shape)
        assert tensors[name].tobytes() == np.ascontiguousarray(bits).tobytes(), name
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata() == {"contract": "bf16-tree-v1", "note": 'two\nlines, "quoted"'}, file.metadata()


def check_theirs_is_read(reader: str, folder: Path) -> None:
    random = np.random.default_rng(0)
    names = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64", "int64": "I64", "uint8": "U8", "bool": "BOOL"}
    tensors = {}
    for i, dtype in enumerate([ml_dtypes.bfloat16, np.float16, np.float32, np.float64, np.int64, np.uint8, np.bool_]):
        for shape in [(3, 5), (7,), (2, 3, 4), (0, 4), ()]:
            raw = random.integers(0, 2 if dtype is np.bool_ else 256, size=(*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
            tensors[f"t{i}.{len(shape)}.{len(tensors)}"] = np.ascontiguousarray(raw).view(dtype).reshape(shape)
    path = folder / "theirs.safetensors"
    safetensors.numpy.save_file(tensors, path, metadata={"format": "np"})
    text = subprocess.run([reader, str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [line.split("\t") for line in text.splitlines()]
    assert ["metadata", "format", "np"] in lines
    read = {line[0]: line[1:] for line in lines if line[0] != "metadata"}
    assert set(read) == set(tensors), set(read) ^ set(tensors)
    for name, tensor in tensors.items():
        dtype, shape, data = read[name]
        assert dtype == names[tensor.dtype.name], (name, dtype)
        assert shape == "x".join(map(str, tensor.shape)), (name, shape)
        assert bytes.fromhex(data) == tensor.tobytes(), name


def check_refused_by_both(reader: str, corpus: Path) -> None:
    """What their library refuses, ours refuses too (ours refuses more)."""
    counts = {"both read": 0, "both refuse": 0, "only ours refuses": 0}
    for file in sorted(corpus.iterdir()):
        try:
            safetensors.deserialize(file.read_bytes())
            theirs = True
        except Exception:
            theirs = False
        ours = subprocess.run([reader, str(file)], capture_output=True).returncode == 0
        assert theirs or not ours, f"{file.name} is read by samebits and refused by safetensors"
        counts["both read" if ours else "only ours refuses" if theirs else "both refuse"] += 1
    print(f"{corpus.name}: {counts}")


def main() -> None:
    writer, reader = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        check_ours_is_read(writer, Path(folder))
        check_theirs_is_read(reader, Path(folder))
    corpus = Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "safetensors"
    if corpus.is_dir():
        check_refused_by_both(reader, corpus)
    print(f"safetensors {safetensors.__version__}: same bytes both ways")


if __name__ == "__main__":
    main()
