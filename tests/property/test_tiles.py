"""Tile kernels: their instructions, then whole maps of every shape, against plain arithmetic and the row kernels.

The kernels' source is compiled for emulated tiles, which run anywhere, and for AMX. Without AMX every one of its
instructions faults, is decoded and emulated: slow, but the machine code that ships.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from arrays import aligned
from hypothesis import given, settings
from hypothesis import strategies as st

from ftbnn import _native

TILES = ["amx_emulated", *(["amx"] if _native.kernels.trap_tiles() else [])]
ISAS = TILES if "avx512" in _native.isas() else []  # the kernels' epilogue is AVX-512
ACTS = ["none", "relu", "prelu", "fprelu"]
PANEL = 32
GUARD = {np.float32: np.float32(-12345.0), np.uint32: np.uint32(0xDEADBEEF)}

every_isa = pytest.mark.parametrize("isa", ISAS)
thorough = settings(max_examples=150, deadline=None)
shapes = st.tuples(*3 * [st.integers(1, 16)])  # m, n, k


def has_bf16(isa: str) -> bool:
    """A CPU may have tiles of bytes alone; the trap has both."""
    return isa == "amx_emulated" or "amx" not in _native.isas() or "amx_bf16" in _native.cpu_features()


@pytest.mark.parametrize("isa", TILES)
@pytest.mark.parametrize("kind", ["i8", "u8i8"])
@given(shape=shapes, seed=st.integers(0, 2**32 - 1))
@thorough
def test_products_of_bytes(isa, kind, shape, seed):
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a = rng.integers(-128, 128, (m, k, 4)).astype(np.int8 if kind == "i8" else np.uint8)
    b = rng.integers(-128, 128, (k, n, 4)).astype(np.int8)
    c = rng.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    exact = c + np.einsum("mkj,knj->mn", a.astype(np.int64), b.astype(np.int64))
    got = c.copy()
    flat = (a.reshape(m, -1), b.reshape(k, -1), got)
    _native.kernels.tile_product(isa, kind, *(x.view(np.uint8) for x in flat))
    np.testing.assert_array_equal(got, exact.astype(np.int32))  # sums wrap


def bf16(values: np.ndarray) -> np.ndarray:
    """The upper halves of floats."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def floats(halves: np.ndarray) -> np.ndarray:
    return (halves.astype(np.uint32) << 16).view(np.float32)


def flushed(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


@pytest.mark.parametrize("isa", [isa for isa in TILES if has_bf16(isa)])
@pytest.mark.parametrize("exponents", [(-2, 3), (-66, -58), (-63, 30), (55, 68)])
@given(shape=shapes, seed=st.integers(0, 2**32 - 1))
@thorough
def test_products_of_bf16_are_rounded_step_by_step(isa, exponents, shape, seed):
    m, n, k = shape
    rng = np.random.default_rng(seed)

    def numbers(shape: tuple[int, ...]) -> np.ndarray:
        return np.ldexp(rng.standard_normal(shape), rng.integers(*exponents, shape)).astype(np.float32)

    a, b, c = bf16(numbers((m, k, 2))), bf16(numbers((k, n, 2))), numbers((m, n))
    got = c.copy()
    _native.kernels.tile_product(
        isa, "bf16", a.reshape(m, -1).view(np.uint8), b.reshape(k, -1).view(np.uint8), got.view(np.uint8)
    )
    # long double holds a product of bf16 plus a float well enough that the second rounding is the only one
    sums = np.zeros((2, m, n), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(k):
            for j in range(2):
                left = flushed(floats(a[:, step, j]))[:, None].astype(np.longdouble)
                right = flushed(floats(b[step, :, j]))[None].astype(np.longdouble)
                sums[j] = flushed((left * right + sums[j]).astype(np.float32))
        want = flushed(flushed(c) + flushed(sums[0] + sums[1]))
    np.testing.assert_array_equal(got, want)


@dataclass(frozen=True)
class Case:
    """One group and one panel of a binary convolution."""

    channels_in: int = 64
    height: int = 6
    width: int = 7
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (1, 1)
    extra: tuple[int, int] = (0, 0)  # rows and columns of the plane that no window reads
    channels: int = PANEL
    first: int = 0
    last: int | None = None
    zero_one: bool = False
    act: str = "fprelu"
    shortcut: str = "none"  # "none", "own" or "out": the output buffer itself
    out: bool = True
    codes: bool = True
    gap: int = 0  # unused elements after each position
    dyadic: bool = True
    seed: int = 0

    @property
    def words(self) -> int:
        return (self.channels_in + 63) // 64

    @property
    def size(self) -> tuple[int, int]:
        """Output rows and columns."""
        spans = (self.height + 2 * self.padding[0], self.width + 2 * self.padding[1])
        return tuple((span - k) // s + 1 for span, k, s in zip(spans, self.kernel, self.stride, strict=True))  # type: ignore[return-value]

    @property
    def rows(self) -> range:
        return range(self.first, self.size[0] if self.last is None else self.last)


@st.composite
def cases(draw) -> Case:
    # Hypothesis likes to repeat parts of an example; options by lot meet all sizes.
    seed = draw(st.integers(0, 2**32 - 1))
    lot = np.random.default_rng(seed)
    kernel = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    padding = int(lot.integers(0, kernel[0] + 1)), int(lot.integers(0, kernel[1] + 1))
    case = Case(
        channels_in=draw(st.integers(1, 200)),
        height=max(draw(st.integers(1, 12)), kernel[0] - 2 * padding[0]),
        width=max(draw(st.integers(1, 40)), kernel[1] - 2 * padding[1]),
        kernel=kernel,
        stride=(int(lot.integers(1, 4)), int(lot.integers(1, 4))),
        padding=padding,
        extra=(int(lot.integers(3)), int(lot.integers(3))),
        channels=draw(st.integers(1, PANEL)),
        zero_one=bool(lot.integers(2)),
        act=str(lot.choice(ACTS)),
        shortcut=str(lot.choice(["none", "own", "out"])),
        out=bool(lot.random() < 0.8),
        codes=bool(lot.random() < 0.8),
        gap=int(lot.integers(4)),
        seed=seed,
    )
    first = int(lot.integers(case.size[0]))
    return replace(case, first=first, last=int(lot.integers(first, case.size[0])) + 1)


def packed(bits: np.ndarray) -> np.ndarray:
    """[..., channels] to [..., words], channel c to bit c % 64 of word c // 64."""
    words = np.zeros((*bits.shape[:-1], (bits.shape[-1] + 63) // 64 * 64), np.uint8)
    words[..., : bits.shape[-1]] = bits
    return np.packbits(words, axis=-1, bitorder="little").view(np.uint64)


class Problem:
    """The numbers of a case: as bits for the kernels, as integers for NumPy."""

    def __init__(self, case: Case) -> None:
        self.case = case
        rng = np.random.default_rng(case.seed)
        top, left = case.padding
        out_rows, out_columns = case.size
        self.plane = (
            max((out_rows - 1) * case.stride[0] + case.kernel[0], top + case.height) + case.extra[0],
            max((out_columns - 1) * case.stride[1] + case.kernel[1], left + case.width) + case.extra[1],
        )
        inside = np.s_[top : top + case.height, left : left + case.width]
        bits = np.zeros((*self.plane, case.channels_in), np.int64)
        bits[inside] = rng.integers(0, 2, bits[inside].shape)
        self.inside = np.zeros(self.plane, np.int64)
        self.inside[inside] = 1
        self.values = bits if case.zero_one else (2 * bits - 1) * self.inside[..., None]
        self.bits = bits
        self.weights = np.zeros((*case.kernel, case.channels_in, PANEL), np.int64)
        self.weights[..., : case.channels] = rng.integers(0, 2, (*case.kernel, case.channels_in, case.channels))
        self.scales = np.zeros((4, PANEL), np.float32)
        if case.dyadic:
            self.scales[0] = rng.choice([-2.0, -0.5, 0.125, 0.25, 1.0], PANEL)
            self.scales[1] = rng.integers(-64, 64, PANEL) / 8
            self.scales[2:] = rng.integers(-8, 8, (2, PANEL)) / 4
        else:
            self.scales[...] = rng.standard_normal((4, PANEL))
        self.scales[:, case.channels :] = 0
        shortcut = (len(case.rows), out_columns, case.channels)
        self.shortcut = rng.integers(-64, 64, shortcut) / 8 if case.dyadic else rng.standard_normal(shortcut)

    def windows(self, image: np.ndarray) -> np.ndarray:
        """[y][x][ky][kx]... for the case's output rows."""
        (kh, kw), (sy, sx) = self.case.kernel, self.case.stride
        return np.stack(
            [
                np.stack([image[y * sy : y * sy + kh, x * sx : x * sx + kw] for x in range(self.case.size[1])])
                for y in self.case.rows
            ]
        )

    def sums(self) -> np.ndarray:
        return np.tensordot(self.windows(self.values), 2 * self.weights - 1, ((2, 3, 4), (0, 1, 2)))

    def packed_weights(self) -> np.ndarray:
        return aligned(np.ascontiguousarray(packed(self.weights.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)))

    def buffers(self) -> tuple[dict, tuple[np.ndarray, np.ndarray]]:
        """Arguments for outputs and shortcut, and the whole arrays they are parts of."""
        case = self.case
        count, columns = len(case.rows), case.size[1]
        out = np.full((count, columns + 1, case.channels + case.gap), GUARD[np.float32])
        codes = np.full((count, columns + 1, 1 + case.gap), GUARD[np.uint32])
        out_view, codes_view = out[:, :columns, : case.channels], codes[:, :columns, :1]
        own = np.zeros_like(out)[:, :columns, : case.channels]
        own[...] = self.shortcut
        if case.shortcut == "out":
            out_view[...] = own
        arguments = {
            "shortcut": {"none": None, "own": own, "out": out_view}[case.shortcut],
            "out": out_view if case.out else None,
            "codes": codes_view if case.codes else None,
        }
        return arguments, (out, codes)

    def rows_by_tiles(self, isa: str) -> tuple[np.ndarray, np.ndarray]:
        case = self.case
        arguments, whole = self.buffers()
        _native.kernels.bconv_rows(
            isa,
            packed(self.bits),
            self.packed_weights(),
            inside=[*case.padding, case.height, case.width],
            channels_in=case.channels_in,
            stride=list(case.stride),
            first=case.rows.start,
            last=case.rows.stop,
            width=case.size[1],
            channels=case.channels,
            zero_one=case.zero_one,
            act=case.act,
            scales=self.scales,
            **arguments,
        )
        return whole

    def rows_by_rows(self, isa: str) -> tuple[np.ndarray, np.ndarray]:
        """The same with bconv_row, every output column a border class of its own."""
        case = self.case
        arguments, whole = self.buffers()
        image, weights = packed(self.bits), self.packed_weights()
        taps = self.windows(self.inside)  # [y][x][ky][kx]
        ones = self.weights.sum(2)  # [ky][kx][o]
        base = case.channels_in * taps.sum((2, 3))[..., None]
        base = base + 2 * np.tensordot(1 - taps, ones, ((2, 3), (0, 1)))
        counts = self.windows(self.bits).sum((2, 3, 4))
        for k, y in enumerate(case.rows):
            start = y * case.stride[0]
            _native.kernels.bconv_row(
                isa,
                image[start : start + case.kernel[0]],
                weights,
                stride=case.stride[1],
                width=case.size[1],
                channels=case.channels,
                act=case.act,
                scales=self.scales,
                zero_one=case.zero_one,
                base=base[k].astype(np.int32),
                border=np.arange(case.size[1], dtype=np.uint8),
                ones=counts[k].astype(np.int32),
                **{name: None if array is None else array[k] for name, array in arguments.items()},
            )
        return whole


def assert_same(got: tuple[np.ndarray, np.ndarray], want: tuple[np.ndarray, np.ndarray]) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@given(cases())
@thorough
def test_the_reference_is_the_convolution_with_zero_padding(case):
    case = replace(case, act="none", shortcut="none", out=True, codes=False)
    problem = Problem(case)
    problem.scales[:] = 0
    problem.scales[0] = 1
    out, _ = problem.rows_by_tiles("reference")
    np.testing.assert_array_equal(out[:, : case.size[1], : case.channels], problem.sums()[..., : case.channels])


@every_isa
@given(case=cases())
@thorough
def test_tiles_equal_the_reference(isa, case):
    problem = Problem(case)
    assert_same(problem.rows_by_tiles(isa), problem.rows_by_tiles("reference"))


@every_isa
@given(case=cases())
@thorough
def test_tiles_give_the_floats_of_avx512(isa, case):
    problem = Problem(replace(case, dyadic=False))
    assert_same(problem.rows_by_tiles(isa), problem.rows_by_rows("avx512"))


# Narrow maps fill tiles across rows; 512 channels sum up the most; stride 2 splits the image by parity.
@every_isa
@pytest.mark.parametrize("zero_one", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("channels_in", "size"), [(64, 56), (128, 28), (256, 14), (512, 7), (512, 1)])
def test_layers_of_networks(isa, channels_in, size, stride, zero_one):
    case = Case(channels_in, size, size, stride=(stride, stride), zero_one=zero_one, shortcut="own", dyadic=False)
    problem = Problem(case)
    assert_same(problem.rows_by_tiles(isa), problem.rows_by_rows("avx512"))


@every_isa
def test_any_bands_of_rows_give_the_whole(isa):
    case = Case(100, 11, 9, channels=20, shortcut="own", dyadic=False)
    whole = Problem(case)
    out, codes = whole.rows_by_tiles(isa)
    for first in range(11):
        for last in range(first + 1, 12):
            part = Problem(replace(case, first=first, last=last))
            part.shortcut = whole.shortcut[first:last]
            assert_same(part.rows_by_tiles(isa), (out[first:last], codes[first:last]))
