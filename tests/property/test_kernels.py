"""Kernels against the reference: rows of every shape, on every ISA of this machine.

Buffers are compared whole, with the guards between and around the rows: a stray write is as wrong as a wrong value.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from arrays import aligned
from hypothesis import given, settings
from hypothesis import strategies as st

from ftbnn import _native

ISAS = [isa for isa in _native.isas() if isa not in ("amx", "avx512bf16")]
ACTS = ["none", "relu", "prelu", "fprelu"]
PANEL = 32
CLASSES = 3  # border classes: left, middle, right
GUARD = {np.float32: np.float32(-12345.0), np.uint32: np.uint32(0xDEADBEEF)}

# An n-term sum of floats is off by at most n half-units of the sum of magnitudes, on each of the two sides compared.
HALF_UNIT = 2.0**-24

every_isa = pytest.mark.parametrize("isa", ISAS)
thorough = settings(max_examples=150, deadline=None)


@dataclass(frozen=True)
class Row:
    values: int  # words or channels of an input position
    kh: int
    kw: int
    stride: int
    width: int
    channels: int
    act: str = "fprelu"
    shortcut: str = "none"  # "none", "own" or "out": the output buffer itself
    out: bool = True
    codes: bool = True
    offset: int = 0  # elements by which buffers miss their alignment
    gap: int = 0  # unused elements between rows
    zero_one: bool = False
    all_ones: bool = False  # binary operands that count as high as they can
    seed: int = 0


@st.composite
def rows(draw, max_values: int) -> Row:
    # Hypothesis likes to repeat parts of an example; options by lot meet all sizes.
    seed = draw(st.integers(0, 2**32 - 1))
    lot = np.random.default_rng(seed)
    return Row(
        values=draw(st.integers(1, max_values)),
        kh=draw(st.integers(1, 7)),
        kw=draw(st.integers(1, 7)),
        stride=draw(st.integers(1, 3)),
        width=draw(st.integers(1, 40)),
        channels=draw(st.integers(1, PANEL)),
        act=str(lot.choice(ACTS)),
        shortcut=str(lot.choice(["none", "own", "out"])),
        out=bool(lot.random() < 0.8),
        codes=bool(lot.random() < 0.8),
        offset=int(lot.integers(4)),
        gap=int(lot.integers(6)),
        zero_one=bool(lot.integers(2)),
        seed=seed,
    )


def strided(shape: tuple[int, ...], dtype: type, row: Row) -> tuple[np.ndarray, np.ndarray]:
    """A flat buffer of guards, and a view of it whose rows lie `gap` apart and start at an odd address."""
    inner = int(np.prod(shape[1:]))
    flat = np.full(row.offset + shape[0] * (inner + row.gap) + 8, GUARD.get(dtype, 0), dtype)
    lines = flat[row.offset : row.offset + shape[0] * (inner + row.gap)].reshape(shape[0], inner + row.gap)
    size = flat.itemsize
    strides = (lines.strides[0], *(size * int(np.prod(shape[k + 1 :])) for k in range(1, len(shape))))
    return flat, np.lib.stride_tricks.as_strided(lines, shape, strides)


def image_of(row: Row, values: np.ndarray) -> np.ndarray:
    _, view = strided(values.shape, values.dtype.type, row)
    view[...] = values
    return view


def image_shape(row: Row) -> tuple[int, int, int]:
    return row.kh, (row.width - 1) * row.stride + row.kw, row.values


def dyadic_scales(row: Row, rng: np.random.Generator) -> np.ndarray:
    """Scale, shift, left and right with which every step of the epilogue is exact, fused or not."""
    scales = np.zeros((4, PANEL), np.float32)
    scales[0] = rng.choice([-2.0, -0.5, 0.125, 0.25, 1.0], PANEL)
    scales[1] = rng.integers(-64, 64, PANEL) / 8
    scales[2:] = rng.integers(-8, 8, (2, PANEL)) / 4
    scales[:, row.channels :] = 0
    return scales


def run(kernel, isa: str, row: Row, **arguments) -> tuple[np.ndarray, np.ndarray]:
    """The flat buffers of `out` and `codes` after one row, guards and all."""
    rng = np.random.default_rng(row.seed)
    out_flat, out = strided((row.width, row.channels), np.float32, row)
    codes_flat, codes = strided((row.width, 1), np.uint32, row)
    _, own = strided((row.width, row.channels), np.float32, row)
    own[...] = rng.integers(-64, 64, own.shape) / 8
    if row.shortcut == "out":
        out[...] = own
    kernel(
        isa,
        stride=row.stride,
        width=row.width,
        channels=row.channels,
        act=row.act,
        shortcut={"none": None, "own": own, "out": out}[row.shortcut],
        out=out if row.out else None,
        codes=codes if row.codes else None,
        **arguments,
    )
    return out_flat, codes_flat


def assert_same(got: tuple[np.ndarray, np.ndarray], want: tuple[np.ndarray, np.ndarray]) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def bconv_arguments(row: Row) -> dict:
    rng = np.random.default_rng(row.seed)
    full = np.iinfo(np.uint64).max

    def words(shape: tuple[int, ...]) -> np.ndarray:
        if row.all_ones:
            return np.full(shape, full)
        return rng.integers(0, full, shape, np.uint64, endpoint=True)

    weights = words((row.kh, row.kw, row.values, PANEL))
    weights[..., row.channels :] = 0
    base = rng.integers(-5000, 5000, (CLASSES, PANEL), np.int32)
    base[:, row.channels :] = 0
    return {
        "image": image_of(row, words(image_shape(row))),
        "weights": aligned(weights),
        "scales": dyadic_scales(row, rng),
        "zero_one": row.zero_one,
        "base": base,
        "border": rng.integers(0, CLASSES, row.width, np.uint8),
        "ones": rng.integers(0, 5000, row.width, np.int32),
    }


def conv_arguments(row: Row, *, exact: bool) -> dict:
    rng = np.random.default_rng(row.seed)
    shapes = image_shape(row), (row.kh, row.kw, row.values, PANEL)
    image, weights = (rng.integers(-4, 5, s) if exact else rng.standard_normal(s) for s in shapes)
    weights[..., row.channels :] = 0
    return {
        "image": image_of(row, image.astype(np.float32)),
        "weights": aligned(weights.astype(np.float32)),
        "scales": dyadic_scales(row, rng),
    }


def plain(row: Row, arguments: dict) -> dict:
    """The same sums without an epilogue."""
    scales = np.zeros((4, PANEL), np.float32)
    scales[0, : row.channels] = 1
    return arguments | {"scales": scales}


@given(rows(9))
@thorough
def test_the_reference_writes_only_what_it_may(row):
    out, codes = run(_native.kernels.bconv_row, "reference", row, **bconv_arguments(row))
    inner = row.channels + row.gap
    lines = out[row.offset : row.offset + row.width * inner].reshape(row.width, inner)
    assert (lines[:, row.channels :] == GUARD[np.float32]).all()
    assert (out[: row.offset] == GUARD[np.float32]).all()
    assert (out[row.offset + lines.size :] == GUARD[np.float32]).all()
    lines = codes[row.offset : row.offset + row.width * (1 + row.gap)].reshape(row.width, 1 + row.gap)
    assert (lines[:, 1:] == GUARD[np.uint32]).all()
    assert (codes[: row.offset] == GUARD[np.uint32]).all()
    assert (codes[row.offset + lines.size :] == GUARD[np.uint32]).all()
    if row.codes:
        assert (lines[:, 0].astype(np.uint64) >> np.uint64(row.channels) == 0).all()


def bits(words: np.ndarray) -> np.ndarray:
    """[..., words] to [..., 64 * words], channel c from bit c % 64 of word c // 64."""
    shifts = np.arange(64, dtype=np.uint64)
    return (words[..., None] >> shifts & np.uint64(1)).reshape(*words.shape[:-1], -1).astype(np.int64)


@pytest.mark.parametrize("zero_one", [False, True])
@pytest.mark.parametrize("words", [1, 3])
def test_the_reference_is_the_convolution_with_zero_padding(words, zero_one):
    row = Row(words, 3, 3, 1, 6, PANEL, act="none", codes=False, zero_one=zero_one, seed=words)
    arguments = plain(row, bconv_arguments(row))
    image, weights = arguments["image"], arguments["weights"]
    image[:, 0] = image[:, -1] = 0  # the border: one column on either side
    signs = 2 * bits(weights.transpose(0, 1, 3, 2)) - 1
    values = bits(image) if zero_one else 2 * bits(image) - 1
    values[:, 0] = values[:, -1] = 0
    want = sum(np.einsum("yxc,yoc->xo", values[:, kx : kx + 6], signs[:, kx]) for kx in range(3))

    column = 3 * 64 * words  # products of one column of taps
    ones = (signs == 1).sum((0, 3))  # [kw][o]: popcount(w) of each column of taps
    base = [2 * column + 2 * ones[0], np.full(PANEL, 3 * column), 2 * column + 2 * ones[2]]
    arguments["base"] = np.stack(base).astype(np.int32)
    arguments["border"] = np.array([0, 1, 1, 1, 1, 2], np.uint8)
    counts = bits(image).sum((0, 2))
    arguments["ones"] = np.array([counts[x : x + 3].sum() for x in range(6)], np.int32)
    got, _ = run(_native.kernels.bconv_row, "reference", row, **arguments)
    np.testing.assert_array_equal(got[: want.size].reshape(want.shape), want)


@every_isa
@given(row=rows(9))
@thorough
def test_binary_rows_equal_the_reference(isa, row):
    arguments = bconv_arguments(row)
    kernel = _native.kernels.bconv_row
    assert_same(run(kernel, isa, row, **arguments), run(kernel, "reference", row, **arguments))


# Kernels count in bytes before they count in integers: runs of any length, in one row of taps or more, overflow none.
@every_isa
@pytest.mark.parametrize("taps", [(1, 1), (1, 4), (3, 1), (3, 3), (2, 5)])
def test_full_counts_do_not_overflow(isa, taps):
    kernel = _native.kernels.bconv_row
    for words in range(1, 70):
        row = Row(words, *taps, 1, 3, 8, act="none", zero_one=True, all_ones=True, seed=words)
        arguments = plain(row, bconv_arguments(row))
        assert_same(run(kernel, isa, row, **arguments), run(kernel, "reference", row, **arguments))


# The shapes that kernels specialise, and widths that cut into full tiles, tails or both.
@every_isa
@pytest.mark.parametrize("zero_one", [False, True])
@pytest.mark.parametrize("width", [7, 13, 14, 28, 56])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("words", [1, 2, 4, 8])
def test_binary_rows_of_networks_equal_the_reference(isa, words, stride, width, zero_one):
    row = Row(words, 3, 3, stride, width, PANEL, shortcut="own", zero_one=zero_one, seed=words * width)
    arguments = bconv_arguments(row)
    kernel = _native.kernels.bconv_row
    assert_same(run(kernel, isa, row, **arguments), run(kernel, "reference", row, **arguments))


@every_isa
@given(row=rows(20))
@thorough
def test_real_rows_of_integers_equal_the_reference(isa, row):
    arguments = conv_arguments(row, exact=True)
    kernel = _native.kernels.conv_row
    assert_same(run(kernel, isa, row, **arguments), run(kernel, "reference", row, **arguments))


@every_isa
@given(row=rows(20))
@thorough
def test_real_rows_differ_from_the_reference_by_rounding(isa, row):
    row = Row(row.values, row.kh, row.kw, row.stride, row.width, row.channels, act="none", codes=False, seed=row.seed)
    arguments = plain(row, conv_arguments(row, exact=False))
    magnitudes = arguments | {"image": np.abs(arguments["image"]), "weights": aligned(np.abs(arguments["weights"]))}
    kernel = _native.kernels.conv_row
    got, _ = run(kernel, isa, row, **arguments)
    want, _ = run(kernel, "reference", row, **arguments)
    magnitude, _ = run(kernel, "reference", row, **magnitudes)
    terms = row.kh * row.kw * row.values
    assert (np.abs(got - want) <= 2 * terms * HALF_UNIT * np.abs(magnitude)).all()


# One order of summation: those that fuse agree with each other to the last bit, those that do not with the reference.
@given(row=rows(20))
@thorough
def test_real_rows_are_summed_in_one_order(row):
    arguments = conv_arguments(row, exact=False)
    kernel = _native.kernels.conv_row
    results = {isa: run(kernel, isa, row, **arguments) for isa in [*ISAS, "reference"]}
    for isa in ISAS:
        assert_same(results[isa], results["reference" if isa == "portable" else ISAS[0]])


@every_isa
@given(row=rows(20))
@thorough
def test_a_position_does_not_know_its_row(isa, row):
    row = Row(row.values, row.kh, row.kw, row.stride, row.width, row.channels, codes=False, seed=row.seed)
    single = Row(row.values, row.kh, row.kw, row.stride, 1, row.channels, codes=False, seed=row.seed)
    arguments = conv_arguments(row, exact=False)
    kernel = _native.kernels.conv_row
    whole, _ = run(kernel, isa, row, **arguments)
    for x in range(row.width):
        window = arguments["image"][:, x * row.stride : x * row.stride + row.kw]
        alone, _ = run(kernel, isa, single, **arguments | {"image": window})
        np.testing.assert_array_equal(alone[: row.channels], whole[x * row.channels : (x + 1) * row.channels])


WRONG = {
    "isa must be": {"isa": "sse9"},
    "act must be": {"act": "gelu"},
    "channels must be 1 to 32": {"channels": 33},
    "stride and width": {"stride": 0},
    "image must be": {"width": 6},
    "side by side": {"image": np.zeros((3, 7, 4), np.uint64)[:, :, ::2]},
    "64-byte boundary": {"weights": aligned(np.zeros(3 * 3 * 2 * 32 + 1, np.uint64))[1:].reshape(3, 3, 2, 32)},
    "border must be": {"border": np.zeros(4, np.uint8)},
    "past base": {"border": np.full(5, 3, np.uint8)},
    "ones must be": {"ones": np.zeros(4, np.int32)},
    "out must be": {"out": np.zeros((5, 31), np.float32)},
    "shortcut must be": {"shortcut": np.zeros((4, 32), np.float32)},
    "codes must be": {"codes": np.zeros((4, 1), np.uint32)},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_sizes_are_refused(message):
    right = bconv_arguments(Row(2, 3, 3, 1, 5, PANEL)) | {
        "isa": "reference",
        "stride": 1,
        "width": 5,
        "channels": PANEL,
        "act": "none",
    }
    _native.kernels.bconv_row(**right)
    with pytest.raises(ValueError, match=message):
        _native.kernels.bconv_row(**right | WRONG[message])
