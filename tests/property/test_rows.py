"""The small row kernels: the portable ones against NumPy, those of every other ISA against the portable ones."""

import numpy as np
import pytest
from convolution import ACTS, GUARD, Case, Ends, assert_same, check_copies
from hypothesis import given, settings
from hypothesis import strategies as st

from ftbnn import _native_tests as native

ALL = native.kernels("between")
ISAS = [name for name in ALL if name != "portable"]

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
    native.pool_row(isa, is_max, image, **shape, out=buffer[:, 1:-2])
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


@pytest.mark.parametrize("isa", ALL)
@given(seed=seeds, is_max=st.booleans())
@thorough
def test_a_pool_writes_its_results_again(isa, seed, is_max):
    image, shape = pools(np.random.default_rng(seed))
    once = run_pool(isa, is_max, image, shape)[:, 1:-2]
    channels = image.shape[2]
    buffer = np.full((shape.pop("width"), 2 * channels + 3), GUARD)
    native.pool_row(isa, is_max, image, **shape, again=channels + 1, out=buffer[:, 1 : channels + 1])
    for part in (buffer[:, 1 : channels + 1], buffer[:, channels + 2 : -1]):
        np.testing.assert_array_equal(part.view(np.uint32), once.view(np.uint32))
    assert (buffer[:, [0, channels + 1, -1]] == GUARD).all()


@pytest.mark.parametrize("isa", ALL)
@given(seed=seeds, has_thresholds=st.booleans())
@thorough
def test_signs(isa, seed, has_thresholds):
    rng = np.random.default_rng(seed)
    width, channels = int(rng.integers(1, 9)), int(rng.integers(1, 300))
    words = -(-channels // 64)
    codes = rng.integers(0, 2**63, (width, words + 2), np.uint64)
    before = codes.copy()
    row = row_of(rng, width, channels)
    threshold = rng.choice(np.float32([-1.5, -0.0, 0.0, 0.25]), channels) if has_thresholds else None
    native.sign_row(isa, row, threshold=threshold, codes=codes[:, 1:-1])
    want = np.zeros((width, 64 * words), np.uint64)
    want[:, :channels] = row > (0 if threshold is None else threshold)
    want = (want.reshape(width, words, 64) << np.arange(64, dtype=np.uint64)).sum(2, dtype=np.uint64)
    np.testing.assert_array_equal(codes[:, 1:-1], want)
    np.testing.assert_array_equal(codes[:, [0, -1]], before[:, [0, -1]])


def epilogue(seed: int, *, exact: bool) -> tuple[np.ndarray, Case]:
    """A row, and what is done to it."""
    rng = np.random.default_rng(seed)
    width, channels = int(rng.integers(1, 20)), int(rng.integers(1, 70))
    options = {name: bool(rng.integers(2)) for name in ("pieces", "after", "threshold", "out", "codes")}
    case = Case(
        outputs=channels,
        h=1,
        w=width,
        kernel=(1, 1),
        padding=(0, 0),
        act=str(rng.choice(ACTS)),
        shortcut=str(rng.choice(["none", "own", "out"])),
        gap=int(rng.integers(3)),
        dyadic=exact,
        seed=seed,
        **options,
    )
    row = row_of(rng, width, channels)
    return (np.round(row * 4) / 4).astype(np.float32) if exact else row, case


def run_pointwise(isa: str, row: np.ndarray, case: Case) -> tuple[np.ndarray, np.ndarray]:
    ends = Ends(case)
    native.pointwise_row(isa, row, ends.given())
    return ends.results()


@given(seeds)
@thorough
def test_the_portable_epilogue_is_the_epilogue(seed):
    row, case = epilogue(seed, exact=True)
    assert_same(run_pointwise("portable", row, case), Ends(case).expected(row[None]))


@every_isa
@given(seed=seeds)
@thorough
def test_epilogues_of_dyadic_numbers_equal_the_portable_one(isa, seed):
    row, case = epilogue(seed, exact=True)
    assert_same(run_pointwise(isa, row, case), run_pointwise("portable", row, case))


@pytest.mark.skipif(len(ISAS) < 2, reason="one ISA that fuses has nothing to agree with")
@given(seeds)
@thorough
def test_epilogues_that_fuse_agree_to_the_last_bit(seed):
    row, case = epilogue(seed, exact=False)
    results = [run_pointwise(isa, row, case) for isa in ISAS]
    for result in results[1:]:
        assert_same(result, results[0])


@pytest.mark.parametrize("isa", ALL)
@pytest.mark.parametrize("act", ACTS)
def test_what_is_not_a_number_stays_visible(isa, act):
    row = np.full((3, 40), np.nan, np.float32)
    got, _ = run_pointwise(isa, row, Case(outputs=40, h=1, w=3, kernel=(1, 1), padding=(0, 0), act=act, codes=False))
    values = got[:, :3, :40]
    assert np.isnan(values).all() if act != "relu" else (np.isnan(values) | (values == 0)).all()


CURVES = {
    1: lambda y: y * np.clip(y + 3, 0, 6) / 6,
    2: lambda y: np.clip(y + 3, 0, 6) / 6,
    3: lambda y: 1 / (1 + np.exp(-y)),
    4: lambda y: y / (1 + np.exp(-y)),
    5: np.tanh,
}


@pytest.mark.parametrize("isa", ALL)
@pytest.mark.parametrize("curve", CURVES)
def test_curves(isa, curve):
    rng = np.random.default_rng(curve)
    y = np.concatenate([np.linspace(-100, 100, 2001), rng.standard_normal(2001) * 5, [0.0, -0.0, 1e-30, 3, -3]])
    y = y.astype(np.float32)
    got = np.concatenate([y, [GUARD]]).astype(np.float32)
    native.bend(isa, curve, got[:-1])
    want = CURVES[curve](y.astype(np.float64))
    np.testing.assert_allclose(got[:-1], want, rtol=1e-6, atol=3e-7)
    assert got[-1] == GUARD
    portable = y.copy()
    native.bend("portable", curve, portable)
    np.testing.assert_array_equal(got[:-1], portable)  # the same floats on every ISA


@pytest.mark.parametrize("isa", ALL)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 7, 8, 16, 37, 224])
def test_channels_are_interleaved(isa, channels, width):
    planes = np.arange(channels * (width + 3), dtype=np.float32).reshape(channels, width + 3)[:, :width]
    out = np.full(channels * width + 1, GUARD)
    native.interleave_row(isa, planes, out=out[:-1])
    np.testing.assert_array_equal(out, [*planes.T.ravel(), GUARD])


@pytest.mark.parametrize("isa", ALL)
@pytest.mark.parametrize("count", [1, 8, 15, 16, 17, 672])
def test_pixels_are_normalised(isa, count):
    rng = np.random.default_rng(count)
    pixels, scales = rng.integers(0, 256, count, np.uint8), rng.standard_normal((2, count)).astype(np.float32)
    out = np.full(count + 1, GUARD)
    native.normalise_row(isa, pixels, scales=scales, out=out[:-1])
    want = scales[0].astype(np.float64) * pixels + scales[1]
    np.testing.assert_allclose(out[:-1], want, rtol=1e-6, atol=1e-4)
    assert out[-1] == GUARD


@pytest.mark.parametrize("isa", ALL)
@given(seed=seeds)
@thorough
def test_signs_in_copies_are_those_of_each_threshold(isa, seed):
    row, case = epilogue(seed, exact=True)
    check_copies(case, seed, lambda end: native.pointwise_row(isa, row, end))
