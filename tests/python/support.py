"""What several tests need: the golden block, ranks as threads, a world of callbacks, and an exporter of DLPack's."""

import ctypes
import re
import threading
from pathlib import Path
from typing import Callable, Dict, List, Sequence

import ml_dtypes
import numpy as np

import samebits
from samebits.bench.ranks import on_ranks

BF16 = ml_dtypes.bfloat16
TOKENS, HIDDEN, INTERMEDIATE = 77, 64, 208  # of the golden digests
GRADIENTS = ("d_gate", "d_up", "d_down")


def goldens() -> Dict[str, Dict[str, str]]:
    """The golden digests of docs/numerics.md section 8, by contract: of seed 0, 77 tokens, H 64, I 208."""
    text = (Path(__file__).resolve().parents[2] / "src" / "reference" / "golden.hpp").read_text()
    columns = ("y", "dx", *GRADIENTS, "d_gate_f32", "d_down_f32")
    rows = re.findall(r'\{"([^"]+)",((?:\s*"[0-9a-f]{32}",?){7})\}', text)
    return {contract: dict(zip(columns, re.findall(r"[0-9a-f]{32}", digests))) for contract, digests in rows}


class Block:
    """Seeded operands of a block."""

    def __init__(self, tokens: int = TOKENS, hidden: int = HIDDEN, intermediate: int = INTERMEDIATE, seed: int = 0) -> None:
        self.tokens, self.hidden, self.intermediate = tokens, hidden, intermediate
        self.x = samebits.seeded("x", tokens, hidden, seed)
        self.dy = samebits.seeded("dy", tokens, hidden, seed)
        self.weights = (
            samebits.seeded("gate", intermediate, hidden, seed),
            samebits.seeded("up", intermediate, hidden, seed),
            samebits.seeded("down", hidden, intermediate, seed),
        )

    def run(self, contract: str, dtype: type = BF16) -> Dict[str, np.ndarray]:
        """What one rank makes of it."""
        out = {"y": samebits.ffn(self.x, *self.weights, contract=contract)}
        gradients = samebits.ffn_backward(
            self.x, self.dy, *self.weights, contract=contract, gradient_dtype="bf16" if dtype is BF16 else "f32"
        )
        return {**out, **gradients._asdict()}


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def on_threads(ranks: int, body: Callable[[int], object]) -> List[object]:
    """on_ranks, and none of them hangs."""
    return on_ranks(ranks, body, timeout=60)


class CallbackWorld:
    """Ranks as threads that exchange bytes by functions of Python."""

    def __init__(self, size: int, concurrent: bool = False) -> None:
        self.size, self.concurrent = size, concurrent
        self.calls = 0
        self._lock = threading.Lock()
        self._barriers: Dict[Sequence[int], threading.Barrier] = {}
        self._sent: Dict[tuple, bytes] = {}
        self._failure = ""

    def transport(self, rank: int) -> samebits.CallbackTransport:
        return samebits.CallbackTransport(rank, self.size, *self.functions(rank), self.abort, concurrent=self.concurrent)

    def functions(self, rank: int):
        def all_gather(group, send, receive, sizes, space, stream):
            assert (space, stream) == ("cpu", 0)
            me = group.index(rank)
            self._exchange(group, {(me, to): ctypes.string_at(send, sizes[me]) for to in range(len(group))}, me, receive, sizes)

        def all_to_all(group, send, send_sizes, receive, receive_sizes, space, stream):
            me, parts, at = group.index(rank), {}, send
            for to, size in enumerate(send_sizes):
                parts[me, to] = ctypes.string_at(at, size)
                at += size
            self._exchange(group, parts, me, receive, receive_sizes)

        return all_gather, all_to_all

    def _exchange(self, group, parts, me, receive, sizes) -> None:
        with self._lock:
            self.calls += 1
            if self._failure:
                raise ConnectionError(self._failure)
            barrier = self._barriers.setdefault(group, threading.Barrier(len(group)))
            self._sent.update({(group, *ends): part for ends, part in parts.items()})
        try:
            barrier.wait(timeout=30)
            for sender, size in enumerate(sizes):
                part = self._sent[group, sender, me]
                assert len(part) == size
                ctypes.memmove(receive, part, size)
                receive += size
            barrier.wait(timeout=30)
        except threading.BrokenBarrierError:
            raise ConnectionError(self._failure or "a rank is gone") from None

    def abort(self, reason: str) -> None:
        with self._lock:
            self._failure = reason
            for barrier in self._barriers.values():
                barrier.abort()


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Unversioned(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Exported:
    """An array that speaks DLPack and nothing else, as a library of before or after version 1.0."""

    def __init__(self, array: np.ndarray, versioned: bool, read_only: bool = False, major: int = 1, device: int = 1, packed: bool = False):
        self.shape = array.shape
        self._array, self._versioned, self._device, self._packed = array, versioned, device, packed
        self._read_only, self._major = read_only, major
        self.asked: List[dict] = []

    def __dlpack_device__(self):
        return (self._device, 0)

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        if not self._versioned and "max_version" in arguments:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        array, count = self._array, self._array.ndim
        self._shape = (ctypes.c_int64 * count)(*array.shape)
        self._strides = (ctypes.c_int64 * count)(*(stride // array.itemsize for stride in array.strides))
        code = {"bfloat16": 4, "float16": 2, "float32": 2, "float64": 2, "int32": 0}[array.dtype.name]
        # The offset is told apart from the pointer, as some libraries do.
        tensor = _Tensor(
            array.__array_interface__["data"][0] - 64, self._device, 0, count, code, 8 * array.itemsize, 1, self._shape,
            None if self._packed else self._strides, 64,
        )  # fmt: skip
        if self._versioned:
            self._managed = _Versioned(self._major, 0, None, None, 1 if self._read_only else 0, tensor)
            return _capsule(ctypes.addressof(self._managed), b"dltensor_versioned", None)
        self._managed = _Unversioned(tensor, None, None)
        return _capsule(ctypes.addressof(self._managed), b"dltensor", None)
