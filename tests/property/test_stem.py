"""The stem in integers: kernels against the reference, and that against a convolution of the normalised image."""

from dataclasses import replace

import numpy as np
import pytest
from convolution import Case, Ends, assert_same, cases, convolve
from hypothesis import given, settings

from ftbnn import _native_tests as native

native.trap_tiles()
KERNELS = [name for name in native.kernels("stem") if name != "none"]
MOST_WINDOW = 504  # bytes, of weights that are any numbers
LEAST_ROW = {0: 1, 8: 2, 16: 2}  # taps, by the bits of rounded weights
BITS = {"amx": (0,), "amx_emulated": (0,), "dotprod": (8,)}  # of the weights that a kernel multiplies
every_kernel = pytest.mark.parametrize(
    ("name", "bits"), [(name, bits) for name in KERNELS for bits in BITS.get(name, (8, 16))]
)
every_size = pytest.mark.parametrize("bits", LEAST_ROW)
thorough = settings(max_examples=50, deadline=None)


class Problem:
    def __init__(self, case: Case, bits: int = 0) -> None:
        rng = np.random.default_rng(case.seed)
        if case.kernel[1] < LEAST_ROW[bits]:
            kernel, w = (case.kernel[0], LEAST_ROW[bits]), max(case.w, LEAST_ROW[bits])
            case = replace(case, kernel=kernel, w=w, extra=(case.extra[0], 0))
        inputs = min(case.inputs, MOST_WINDOW // (case.kernel[0] * case.kernel[1]))
        self.case = case = replace(case, inputs=inputs, groups=1)
        self.image = rng.integers(0, 256, (case.h, case.w, inputs), np.uint8)
        if rng.random() < 0.2:
            self.image[...] = 0
        size = np.float32(2.0 ** rng.integers(-20, 20))
        self.weights = (size * rng.standard_normal((case.outputs, inputs, *case.kernel))).astype(np.float32)
        self.pixel = rng.standard_normal((2, inputs)).astype(np.float32)
        self.rounded = {}
        if bits:
            most = 2 ** (bits - 1) - 1
            integers = rng.integers(-most, most + 1, self.weights.shape, np.int16)
            unit = np.exp2(rng.integers(-20, 20, case.outputs)).astype(np.float32)
            self.weights = (integers * unit.reshape(-1, 1, 1, 1)).astype(np.float32)
            self.rounded = {"integers": integers.ravel(), "unit": unit, "bits": bits}
            if case.dyadic:  # so that ratios of scales are powers of two
                self.pixel[0] = rng.choice(np.float32([-2, -0.5, 0.25, 1, 0]), inputs)

    def run(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        ends, geometry = Ends(self.case), self.case.geometry()
        del geometry["groups"]
        done = native.stem(
            name, self.image, self.weights.ravel(), **geometry, pixel=self.pixel, end=ends.given(), **self.rounded
        )
        assert done
        return ends.results()


@every_kernel
@given(case=cases(4))
@thorough
def test_kernels_equal_the_reference(name, bits, case):
    problem = Problem(replace(case, dyadic=True), bits)
    for got, want in zip(problem.run(name), problem.run("reference"), strict=True):
        np.testing.assert_array_equal(got, want)


@every_size
@given(case=cases(4))
@thorough
def test_the_reference_is_as_good_as_float32(bits, case):
    case = replace(
        case, act="none", shortcut="none", out=True, pieces=False, after=False, threshold=False, dyadic=False
    )
    problem = Problem(case, bits)
    case, ends = problem.case, Ends(problem.case)
    scale, shift = problem.pixel.astype(np.float64)
    image = problem.image * scale + shift
    weights = [problem.weights.astype(np.float64)]
    sums = convolve(image, weights, case)
    exact = ends.numbers["scale"].astype(np.float64) * sums + ends.numbers["shift"]
    # What is rounded: weights, by 2^-24 of the channel's largest, if they are no integers, and sums, of pixels up to
    # 128 from their middle, or 255 from 0.
    zero, most = (0, 255) if bits else (128, 128)
    middle, reach = np.abs(zero * scale + shift), most * np.abs(scale)
    largest = np.abs(problem.weights * problem.pixel[0].reshape(-1, 1, 1)).max((1, 2, 3))
    taps = problem.weights[0].size
    magnitude = convolve(np.ones_like(image) * (middle + reach), [np.abs(w) for w in weights], case)
    bound = 2.0**-22 * np.abs(ends.numbers["scale"]) * (magnitude + 128 * taps * largest)
    bound += 2.0**-22 * np.abs(ends.numbers["shift"])
    got, _ = problem.run("reference")
    assert (np.abs(got[:, : case.size[1], : case.outputs] - exact) <= bound).all()


def test_windows_that_are_too_large_are_left_to_floats():
    case = Case(60, 8, 6, 6, act="none")
    image, weights = np.zeros((6, 6, 60), np.uint8), np.zeros(8 * 60 * 9, np.float32)
    geometry = case.geometry()
    del geometry["groups"]
    given_end = Ends(case).given()
    assert not native.stem("reference", image, weights, **geometry, pixel=np.ones((2, 60), np.float32), end=given_end)


@every_kernel
def test_any_rows_give_the_whole(name, bits):
    whole = Problem(Case(3, 40, 11, 30, kernel=(7, 7), stride=(2, 2), padding=(3, 3), shortcut="own"), bits)
    out, codes = whole.run(name)
    shortcut = Ends(whole.case).shortcut
    for first in range(0, 6, 2):
        part = replace(whole.case, first=first, last=6)
        ends, geometry = Ends(part), part.geometry()
        del geometry["groups"]
        ends.shortcut[...] = shortcut[first:]
        given = {"pixel": whole.pixel, "end": ends.given()} | whole.rounded
        native.stem(name, whole.image, whole.weights.ravel(), **geometry, **given)
        assert_same(ends.results(), (out[first:], codes[first:]))


def test_rounded_weights_are_left_to_floats_where_those_are_faster_or_sums_would_not_fit():
    for kernel, bits, is_done in (
        ((1, 1), 8, False),
        ((3, 3), 8, True),
        ((1, 1), 16, False),
        ((3, 3), 16, True),
        ((7, 7), 16, True),
        ((16, 16), 16, True),
        ((17, 17), 16, False),
    ):
        case = Case(1, 3, 20, 20, kernel=kernel, padding=(0, 0), act="none")
        geometry = case.geometry()
        del geometry["groups"]
        count = 3 * kernel[0] * kernel[1]
        integers = np.full(count, 2 ** (bits - 1) - 1, np.int16)
        rounded = {"integers": integers, "unit": np.ones(3, np.float32), "bits": bits}
        image, pixel, ends = np.full((20, 20, 1), 255, np.uint8), np.float32([[1], [0]]), Ends(case)
        weights = integers.astype(np.float32)
        done = native.stem("reference", image, weights, **geometry, pixel=pixel, end=ends.given(), **rounded)
        assert done == is_done, (kernel, bits)
        if done:
            sums = ends.numbers["scale"] * np.float64(255 * integers.astype(np.int64).sum() // 3)
            np.testing.assert_allclose(ends.out[0, 0], sums + ends.numbers["shift"], rtol=1e-6)
