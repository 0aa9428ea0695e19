"""Arrays come in where they lie: NumPy's protocol, DLPack of both ages, described ones; any strides; and what is refused."""

import sys

import ml_dtypes
import numpy as np
import pytest
from support import BF16, GRADIENTS, Block, Exported, bits

import samebits
from samebits import _core

BLOCK = Block(tokens=11, hidden=48, intermediate=96)
CONTRACT = "bf16-tree-v1"


@pytest.fixture(scope="module")
def expected():
    return BLOCK.run(CONTRACT)


def strided(array, kind):
    """The same values elsewhere: padded rows, every second column, transposed, upside down, at an odd offset."""
    rows, cols = array.shape
    if kind == "padded":
        out = np.zeros((rows, cols + 5), array.dtype)[:, 2 : cols + 2]
    elif kind == "columns apart":
        out = np.zeros((rows, 2 * cols), array.dtype)[:, ::2]
    elif kind == "transposed":
        out = np.zeros((cols, rows), array.dtype).T
    elif kind == "rows upside down":
        out = np.zeros((rows, cols), array.dtype)[::-1]
    elif kind == "columns back to front":
        out = np.zeros((rows, cols), array.dtype)[:, ::-1]
    out[...] = array
    return out


KINDS = ["padded", "columns apart", "transposed", "rows upside down", "columns back to front"]


@pytest.mark.parametrize("kind", KINDS)
def test_strides(kind, expected):
    x, dy, *weights = (strided(array, kind) for array in (BLOCK.x, BLOCK.dy, *BLOCK.weights))
    out = strided(np.zeros_like(BLOCK.x), kind)
    assert samebits.ffn(x, *weights, contract=CONTRACT, out=out) is out
    assert bits(out) == bits(expected["y"])
    outs = {"dx": strided(np.zeros_like(BLOCK.x), kind)}
    outs.update((name, strided(np.zeros_like(weight), kind)) for name, weight in zip(GRADIENTS, BLOCK.weights))
    made = samebits.ffn_backward(x, dy, *weights, contract=CONTRACT, **outs)
    for name, array in made._asdict().items():
        assert array is outs[name]
        assert bits(array) == bits(expected[name]), name
    assert samebits.digest(x) == samebits.digest(BLOCK.x)
    assert samebits.compare(x, BLOCK.x).equal


def test_what_lies_between_is_not_written(expected):
    wide = np.full((11, 60), 7, BF16)
    samebits.ffn(BLOCK.x, *BLOCK.weights, contract=CONTRACT, out=wide[:, 5:53])
    assert bits(wide[:, 5:53]) == bits(expected["y"])
    assert (wide[:, :5] == 7).all() and (wide[:, 53:] == 7).all()


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("kind", [None, *KINDS])
def test_dlpack(versioned, kind, expected):
    x, *weights = (strided(array, kind) if kind else array for array in (BLOCK.x, *BLOCK.weights))
    y = np.zeros_like(BLOCK.x)
    exported = Exported(x, versioned)
    made = samebits.ffn(
        exported, *(Exported(weight, versioned) for weight in weights), contract=CONTRACT, out=Exported(y, versioned)
    )
    assert isinstance(made, Exported)
    assert bits(y) == bits(expected["y"])
    # Once, or once more without the version; no stream is named to a CPU.
    assert exported.asked == ([{"max_version": (1, 0)}] if versioned else [{"max_version": (1, 0)}, {}])


def test_dlpack_without_strides_is_row_major():
    assert samebits.digest(Exported(BLOCK.x, False, packed=True)) == samebits.digest(BLOCK.x)
    assert samebits.digest(Exported(BLOCK.x.T, False, packed=True)) != samebits.digest(BLOCK.x.T)


def test_leading_axes(expected):
    x = np.zeros((2, 3, 5, 48), BF16)
    x[...] = samebits.seeded("x", 30, 48).reshape(2, 3, 5, 48)
    y = samebits.ffn(x, *BLOCK.weights, contract=CONTRACT)
    assert y.shape == x.shape and y.dtype == x.dtype
    flat = samebits.ffn(x.reshape(30, 48), *BLOCK.weights, contract=CONTRACT)
    assert bits(y) == bits(flat)
    part = x[:, 1:, ::2]  # axes that do not merge: an operand is copied, a result refused
    assert bits(samebits.ffn(part, *BLOCK.weights, contract=CONTRACT)) == bits(y[:, 1:, ::2])
    with pytest.raises(ValueError, match="^out has leading axes|^y has leading axes"):
        samebits.ffn(part, *BLOCK.weights, contract=CONTRACT, out=np.zeros_like(x)[:, 1:, ::2])
    every_second = np.zeros((2, 3, 10, 48), BF16)[:, :, ::2]  # axes that do
    assert bits(samebits.ffn(x, *BLOCK.weights, contract=CONTRACT, out=every_second)) == bits(y)
    gradients = samebits.ffn_backward(x, x, *BLOCK.weights, contract=CONTRACT)
    assert gradients.dx.shape == x.shape
    row = samebits.ffn(x[0, 0, 0], *BLOCK.weights, contract=CONTRACT)
    assert row.shape == (48,) and bits(row) == bits(y[0, 0, 0])
    assert samebits.ffn(x[:0], *BLOCK.weights, contract=CONTRACT).shape == (0, 3, 5, 48)


def described(array, dtype=_core.BF16):
    size = array.itemsize
    return (array.__array_interface__["data"][0], *array.shape, *(stride // size for stride in array.strides), dtype, 1, 0)


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_described_arrays(kind, expected):
    x = strided(BLOCK.x, kind) if kind else BLOCK.x
    y = np.zeros_like(BLOCK.x)
    plan = samebits.Plan(CONTRACT, 48, 96, 11)
    plan.forward(described(x), described(y), *map(described, BLOCK.weights))
    assert bits(y) == bits(expected["y"])
    wide = np.zeros(BLOCK.weights[0].shape, np.float32)
    others = [np.zeros(weight.shape, np.float32) for weight in BLOCK.weights[1:]]
    plan.backward(
        described(x), described(BLOCK.dy), *map(described, BLOCK.weights),
        **{name: described(array, _core.F32) for name, array in zip(GRADIENTS, (wide, *others))},
    )  # fmt: skip
    assert bits(wide.astype(BF16)) == bits(expected["d_gate"])


def test_broken_descriptions():
    plan = samebits.Plan(CONTRACT, 48, 96, 11)
    good, y = described(BLOCK.x), np.zeros_like(BLOCK.x)
    for broken, kind in (
        (good[:7], TypeError),
        ((*good[:5], 9, 1, 0), TypeError),
        ((*good[:6], 77, 0), ValueError),
        ((good[0], -1, *good[2:]), ValueError),
        (("a", *good[1:]), TypeError),
        ((0, *good[1:]), ValueError),  # no data
        ((good[0] + 1, *good[1:]), ValueError),  # no address of a bf16
    ):
        with pytest.raises(kind):
            plan.forward(broken, y, *BLOCK.weights)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_other_dtypes_are_digested_and_compared(dtype):
    array = np.arange(12, dtype=dtype).reshape(3, 4)
    assert samebits.digest(array) == samebits.digest(Exported(array, True)) == samebits.digest(array.copy(order="F"))
    other = array.copy()
    other[1, 2] = np.nextafter(other[1, 2], np.array(np.inf, dtype))
    difference = samebits.compare(array, other)
    assert (difference.equal, difference.elements, difference.differing, difference.first) == (False, 12, 1, (1, 2))
    assert difference.max_ulps == 1 and difference.first_bits[1] == difference.first_bits[0] + 1
    assert str(difference).startswith("1 of 12 elements differ; first at [1, 2]: 0x")
    assert samebits.digest(other) != samebits.digest(array)


def test_nans_are_compared_by_bits_or_not():
    a, b = (np.array([[bits]], np.uint32).view(np.float32) for bits in (0x7FC00000, 0x7FC00001))
    assert not samebits.compare(a, b).equal and samebits.compare(a, b).nan_against_nan == 1
    assert samebits.compare(a, b, any_nan_equal=True).equal
    with pytest.raises(ValueError, match="dtype and shape must be the same"):
        samebits.compare(a, np.zeros((2, 1), np.float32))


def test_digests_of_few_axes():
    assert samebits.digest(BLOCK.x[0]) == samebits.digest(BLOCK.x[:1])
    assert samebits.digest(BLOCK.x[0, 0]) == samebits.digest(BLOCK.x[:1, :1])


@pytest.mark.parametrize("dtype", ["uint16", "float64", "int32", "bool"])
def test_dtypes_that_are_not_read(dtype):
    array = np.zeros((2, 2), dtype)
    with pytest.raises(TypeError, match=f"^the tensor to digest is {dtype}; bfloat16, float16 and float32 are read"):
        samebits.digest(array)
    if dtype in ("float64", "int32"):
        with pytest.raises(TypeError, match="bfloat16, float16 and float32 are read"):
            samebits.digest(Exported(array, True))
    with pytest.raises(TypeError, match="float8"):
        samebits.digest(np.zeros((2, 2), ml_dtypes.float8_e4m3fn))


def test_no_arrays():
    for thing in (None, "text", [[1.0]], object()):
        with pytest.raises(TypeError, match="no array"):
            samebits.digest(thing)
        with pytest.raises(TypeError, match="no array"):
            samebits.ffn(thing, *BLOCK.weights)


@pytest.mark.parametrize(
    "dtype, place",
    [("float32", "x"), ("float16", "x"), ("float32", "w_up"), ("float32", "out")],
)
def test_dtypes_that_are_not_computed_with(dtype, place):
    arguments = dict(zip(("x", "w_gate", "w_up", "w_down"), (BLOCK.x, *BLOCK.weights)), out=np.zeros_like(BLOCK.x))
    arguments[place] = arguments[place].astype(dtype)
    short = {"w_up": "up", "out": "y"}.get(place, place)
    with pytest.raises(TypeError, match=f"^{short} is {dtype.replace('float', 'f')}, the plan expects bf16$"):
        samebits.ffn(**arguments)


def test_read_only_results_are_refused():
    y = np.zeros_like(BLOCK.x)
    y.flags.writeable = False
    for out in (y, Exported(np.zeros_like(y), True, read_only=True)):
        with pytest.raises(ValueError, match="^y is read-only"):
            samebits.ffn(BLOCK.x, *BLOCK.weights, out=out)
    x = BLOCK.x.copy()
    x.flags.writeable = False
    samebits.ffn(x, *BLOCK.weights)  # operands may be


def test_results_that_share_memory_are_refused():
    both = np.zeros((22, 48), BF16)
    fits = dict(contract=CONTRACT)
    for x, out in (
        (both[:11], both[:11]),
        (both[:11], both[5:16]),
        (both[5:16], both[:11]),
        (both[::2], both[::2]),
        (both[:11], both[10::-1]),
    ):
        with pytest.raises(ValueError, match="^y shares memory with x"):
            samebits.ffn(x, *BLOCK.weights, out=out, **fits)
    wide = np.zeros((11, 100), BF16)
    with pytest.raises(ValueError, match="^y shares memory with x"):
        samebits.ffn(wide[:, :48], *BLOCK.weights, out=wide[:, 47:95], **fits)
    with pytest.raises(ValueError, match="^d_gate shares memory with d_up"):
        fused = np.zeros((96, 48), BF16)
        samebits.ffn_backward(BLOCK.x, BLOCK.dy, *BLOCK.weights, d_gate=fused, d_up=fused)
    with pytest.raises(ValueError, match="^dx shares memory with dy"):
        dy = BLOCK.dy.copy()
        samebits.ffn_backward(BLOCK.x, dy, *BLOCK.weights, dx=dy)
    with pytest.raises(ValueError, match="share memory"):
        samebits.ffn(BLOCK.x, *BLOCK.weights, out=np.lib.stride_tricks.as_strided(both, (11, 48), (0, 2)))


def test_neighbours_in_one_matrix_are_no_overlap(expected):
    wide = np.zeros((11, 96), BF16)
    wide[:, :48] = BLOCK.x
    samebits.ffn(wide[:, :48], *BLOCK.weights, contract=CONTRACT, out=wide[:, 48:])
    assert bits(wide[:, 48:]) == bits(expected["y"])
    wide[:, 48:] = BLOCK.x
    samebits.ffn(wide[:, 48:], *BLOCK.weights, contract=CONTRACT, out=wide[:, :48])
    assert bits(wide[:, :48]) == bits(expected["y"])
    fused = np.zeros((192, 48), BF16)  # gate and up as one tensor
    samebits.ffn_backward(BLOCK.x, BLOCK.dy, *BLOCK.weights, contract=CONTRACT, d_gate=fused[::2], d_up=fused[1::2])
    assert bits(fused[::2]) == bits(expected["d_gate"]) and bits(fused[1::2]) == bits(expected["d_up"])
    tall = np.zeros((48, 22), BF16).T
    tall[:11] = BLOCK.x
    samebits.ffn(tall[:11], *BLOCK.weights, contract=CONTRACT, out=tall[11:])
    assert bits(tall[11:]) == bits(expected["y"])


def test_arrays_of_unknown_kinds_need_a_result():
    with pytest.raises(TypeError, match="^no array like support.Exported can be made here: pass one that is written to, out=$"):
        samebits.ffn(Exported(BLOCK.x, True), *BLOCK.weights)


def test_devices_and_versions_that_are_not_read():
    with pytest.raises(ValueError, match="DLPack type 8"):
        samebits.digest(Exported(BLOCK.x, True, device=8))
    with pytest.raises(ValueError, match="speaks DLPack 2"):
        samebits.digest(Exported(BLOCK.x, True, major=2))
    with pytest.raises(ValueError, match="lies in device memory"):
        samebits.digest(Exported(BLOCK.x, True, device=2))
    on_device = Exported(BLOCK.x, True, device=2)
    with pytest.raises(ValueError, match=r"^x lies on another device \(cuda:0\) than the plan's engine \(cpu\)$"):
        samebits.Plan(CONTRACT, 48, 96, 11).forward(on_device, np.zeros_like(BLOCK.x), *BLOCK.weights, stream=5)
    assert on_device.asked == [{"stream": 5, "max_version": (1, 0)}]


def test_exports_are_let_go():
    exported = Exported(BLOCK.x, True)
    before = sys.getrefcount(BLOCK.x), sys.getrefcount(exported)
    for _ in range(50):
        samebits.digest(exported)
        samebits.digest(BLOCK.x)
    assert (sys.getrefcount(BLOCK.x), sys.getrefcount(exported)) == before
