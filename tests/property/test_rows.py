"""The small row kernels: the portable ones against NumPy, those of every other ISA against the portable ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftbnn import _native

kernels = _native.kernels
ISAS = [isa for isa in _native.isas() if isa not in ("amx", "portable")]
GUARD = np.float32(-12345.0)

every_isa = pytest.mark.parametrize("isa", ISAS)
thorough = settings(max_examples=100, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def row_of(rng: np.random.Generator, width: int, channels: int) -> np.ndarray:
    """Positions that lie some floats apart and start anywhere; zeros of both signs among the values."""
    gap, offset = rng.integers(0, 4, 2)
    flat = rng.choice(np.float32([-1.5, -0.0, 0.0, 0.25, 3.0]), offset + width * (channels + gap))
    flat += rng.standard_normal(flat.shape).astype(np.float32) * rng.integers(2)
    return flat[offset:].reshape(width, channels + gap)[:, :channels]


def pools(rng: np.random.Generator) -> tuple[np.ndarray, dict]:
    """A piece of an image and a pool's row on it."""
    kw, step, width = (int(rng.integers(1, top)) for top in (6, 4, 12))
    left = int(rng.integers(0, kw))
    least = max(1, (width - 1) * step - left + 1)
    image = rng.standard_normal((int(rng.integers(1, 5)), least + int(rng.integers(0, kw)), int(rng.integers(1, 150))))
    divisor = float(rng.choice([0.0, 9.0]))
    return image.astype(np.float32), {"kw": kw, "stride": step, "left": left, "divisor": divisor, "width": width}


def run_pool(isa: str, is_max: bool, image: np.ndarray, shape: dict) -> np.ndarray:
    shape = dict(shape)
    buffer = np.full((shape.pop("width"), image.shape[2] + 3), GUARD)
    kernels.pool_row(isa, is_max, image, **shape, out=buffer[:, 1:-2])
    return buffer


@given(seeds, st.booleans())
@thorough
def test_the_portable_pool_is_the_pool(seed, is_max):
    image, shape = pools(np.random.default_rng(seed))
    got = run_pool("portable", is_max, image, shape)
    assert (got[:, 0] == GUARD).all()
    assert (got[:, -2:] == GUARD).all()
    for x in range(shape["width"]):
        start = x * shape["stride"] - shape["left"]
        window = image[:, max(start, 0) : start + shape["kw"]].astype(np.float64)
        count = shape["divisor"] or window.shape[0] * window.shape[1]
        want = window.max((0, 1)) if is_max else window.sum((0, 1)) / count
        np.testing.assert_allclose(got[x, 1:-2], want, rtol=1e-5, atol=1e-6)


@every_isa
@given(seed=seeds, is_max=st.booleans())
@thorough
def test_pools_equal_the_portable_ones(isa, seed, is_max):
    image, shape = pools(np.random.default_rng(seed))
    np.testing.assert_array_equal(
        run_pool(isa, is_max, image, shape).view(np.uint32), run_pool("portable", is_max, image, shape).view(np.uint32)
    )


@pytest.mark.parametrize("isa", _native.isas())
@given(seed=seeds)
@thorough
def test_runs_of_signs_are_put_together(isa, seed):
    rng = np.random.default_rng(seed)
    width, runs = int(rng.integers(1, 9)), [int(n) for n in rng.integers(1, 150, rng.integers(1, 4))]
    words = -(-sum(runs) // 64)
    codes = rng.integers(0, 2**63, (width, words + 2), np.uint64)
    before = codes.copy()
    rows = [row_of(rng, width, n) for n in runs]
    for k, row in enumerate(rows):
        kernels.sign_row(isa, row, at=sum(runs[:k]), codes=codes[:, 1:-1])
    signs = np.concatenate(rows, axis=1) > 0
    want = np.zeros((width, 64 * words), np.uint64)
    want[:, : signs.shape[1]] = signs
    want = (want.reshape(width, words, 64) << np.arange(64, dtype=np.uint64)).sum(2, dtype=np.uint64)
    np.testing.assert_array_equal(codes[:, 1:-1], want)
    np.testing.assert_array_equal(codes[:, [0, -1]], before[:, [0, -1]])


@pytest.mark.parametrize("isa", _native.isas())
@given(seed=seeds)
@thorough
def test_ones_of_windows(isa, seed):
    rng = np.random.default_rng(seed)
    words, kh, kw, step, width = (int(rng.integers(1, top)) for top in (6, 5, 6, 4, 30))
    reach = (width - 1) * step + kw
    image = rng.integers(0, 2**64 - 1, (kh, reach, words), np.uint64, endpoint=True)
    ones = np.full(width + 1, -1, np.int32)
    columns = np.full(reach + 1, -1, np.int32)
    kernels.ones_row(isa, image, kw=kw, stride=step, columns=columns[:-1], ones=ones[:-1])
    counts = np.unpackbits(image.view(np.uint8).reshape(kh, reach, -1), axis=2).sum((0, 2))
    want = [counts[x * step : x * step + kw].sum() for x in range(width)]
    np.testing.assert_array_equal(ones, [*want, -1])
    assert columns[-1] == -1


def epilogue(rng: np.random.Generator, *, exact: bool) -> dict:
    width, channels = int(rng.integers(1, 9)), int(rng.integers(1, 70))
    scales = rng.integers(-8, 8, (4, channels)) / 4 if exact else rng.standard_normal((4, channels))
    row, shortcut = row_of(rng, width, channels), row_of(rng, width, channels)
    if exact:
        row, shortcut = np.round(row * 4) / 4, np.round(shortcut * 4) / 4
    return {
        "row": row.astype(np.float32),
        "scales": np.ascontiguousarray(scales, np.float32),
        "act": int(rng.integers(4)),
        "shortcut": shortcut.astype(np.float32) if rng.integers(2) else None,
    }


def run_pointwise(isa: str, arguments: dict) -> np.ndarray:
    width, channels = arguments["row"].shape
    buffer = np.full((width, channels + 2), GUARD)
    kernels.pointwise_row(isa, **arguments, out=buffer[:, 1:-1])
    return buffer


@given(seeds)
@thorough
def test_the_portable_epilogue_is_the_epilogue(seed):
    arguments = epilogue(np.random.default_rng(seed), exact=True)
    scale, shift, left, right = arguments["scales"]
    y = scale * arguments["row"] + shift + (0 if arguments["shortcut"] is None else arguments["shortcut"])
    slopes = [(1, 1), (0, 1), (left, 1), (left, right)][arguments["act"]]
    np.testing.assert_array_equal(
        run_pointwise("portable", arguments)[:, 1:-1], np.where(y > 0, slopes[1], slopes[0]) * y
    )


@every_isa
@given(seed=seeds)
@thorough
def test_epilogues_of_dyadic_numbers_equal_the_portable_one(isa, seed):
    arguments = epilogue(np.random.default_rng(seed), exact=True)
    np.testing.assert_array_equal(run_pointwise(isa, arguments), run_pointwise("portable", arguments))


@pytest.mark.skipif(len(ISAS) < 2, reason="one ISA that fuses has nothing to agree with")
@given(seeds)
@thorough
def test_epilogues_that_fuse_agree_to_the_last_bit(seed):
    arguments = epilogue(np.random.default_rng(seed), exact=False)
    results = [run_pointwise(isa, arguments) for isa in ISAS]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("isa", _native.isas())
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 7, 8, 16, 37, 224])
def test_channels_are_interleaved(isa, channels, width):
    planes = np.arange(channels * (width + 3), dtype=np.float32).reshape(channels, width + 3)[:, :width]
    out = np.full(channels * width + 1, GUARD)
    kernels.interleave_row(isa, planes, out=out[:-1])
    np.testing.assert_array_equal(out, [*planes.T.ravel(), GUARD])


@pytest.mark.parametrize("isa", _native.isas())
@pytest.mark.parametrize("count", [1, 8, 15, 16, 17, 672])
def test_pixels_are_normalised(isa, count):
    rng = np.random.default_rng(count)
    pixels, scales = rng.integers(0, 256, count, np.uint8), rng.standard_normal((2, count)).astype(np.float32)
    out = np.full(count + 1, GUARD)
    kernels.normalise_row(isa, pixels, scales=scales, out=out[:-1])
    want = scales[0].astype(np.float64) * pixels + scales[1]
    np.testing.assert_allclose(out[:-1], want, rtol=1e-6, atol=1e-4)
    assert out[-1] == GUARD
