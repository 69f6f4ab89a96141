"""Tile instructions against plain arithmetic: emulated, and as the CPU or its trap does them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftbnn import _native
from ftbnn import _native_tests as native

TILES = [True, *([False] if native.trap_tiles() else [])]  # emulated or not
every_tile = pytest.mark.parametrize("emulated", TILES)
thorough = settings(max_examples=150, deadline=None)
shapes = st.tuples(*3 * [st.integers(1, 16)])  # m, n, k


def has_bf16(emulated: bool) -> bool:
    """A CPU may have tiles of bytes alone; the trap has both."""
    return emulated or "amx" not in _native.capabilities()["isas"] or "amx_bf16" in native.features()


@every_tile
@pytest.mark.parametrize("kind", ["i8", "u8i8"])
@given(shape=shapes, seed=st.integers(0, 2**32 - 1))
@thorough
def test_products_of_bytes(emulated, kind, shape, seed):
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a = rng.integers(-128, 128, (m, k, 4)).astype(np.int8 if kind == "i8" else np.uint8)
    b = rng.integers(-128, 128, (k, n, 4)).astype(np.int8)
    c = rng.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    exact = c + np.einsum("mkj,knj->mn", a.astype(np.int64), b.astype(np.int64))
    got = c.copy()
    flat = (a.reshape(m, -1), b.reshape(k, -1), got)
    native.tile_product(emulated, kind, *(x.view(np.uint8) for x in flat))
    np.testing.assert_array_equal(got, exact.astype(np.int32))  # sums wrap


def bf16(values: np.ndarray) -> np.ndarray:
    """The upper halves of floats."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def floats(halves: np.ndarray) -> np.ndarray:
    return (halves.astype(np.uint32) << 16).view(np.float32)


def flushed(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


@pytest.mark.parametrize("emulated", [emulated for emulated in TILES if has_bf16(emulated)])
@pytest.mark.parametrize("exponents", [(-2, 3), (-66, -58), (-63, 30), (55, 68)])
@given(shape=shapes, seed=st.integers(0, 2**32 - 1))
@thorough
def test_products_of_bf16_are_rounded_step_by_step(emulated, exponents, shape, seed):
    m, n, k = shape
    rng = np.random.default_rng(seed)

    def numbers(shape: tuple[int, ...]) -> np.ndarray:
        return np.ldexp(rng.standard_normal(shape), rng.integers(*exponents, shape)).astype(np.float32)

    a, b, c = bf16(numbers((m, k, 2))), bf16(numbers((k, n, 2))), numbers((m, n))
    got = c.copy()
    native.tile_product(
        emulated, "bf16", a.reshape(m, -1).view(np.uint8), b.reshape(k, -1).view(np.uint8), got.view(np.uint8)
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
