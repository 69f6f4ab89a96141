"""The stem in integers: kernels against the reference, and that against a convolution of the normalised image."""

from dataclasses import replace

import numpy as np
import pytest
from convolution import Case, Ends, assert_same, cases, convolve
from hypothesis import given, settings

from ftbnn import _native_tests as native

native.trap_tiles()
KERNELS = [name for name in native.kernels("stem") if name != "none"]
MOST_WINDOW = 504  # bytes
every_kernel = pytest.mark.parametrize("name", KERNELS)
thorough = settings(max_examples=50, deadline=None)


class Problem:
    def __init__(self, case: Case) -> None:
        rng = np.random.default_rng(case.seed)
        inputs = min(case.inputs, MOST_WINDOW // (case.kernel[0] * case.kernel[1]))
        self.case = case = replace(case, inputs=inputs, groups=1)
        self.image = rng.integers(0, 256, (case.h, case.w, inputs), np.uint8)
        if rng.random() < 0.2:
            self.image[...] = 0
        size = np.float32(2.0 ** rng.integers(-20, 20))
        self.weights = (size * rng.standard_normal((case.outputs, inputs, *case.kernel))).astype(np.float32)
        self.pixel = rng.standard_normal((2, inputs)).astype(np.float32)

    def run(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        ends, geometry = Ends(self.case), self.case.geometry()
        del geometry["groups"]
        done = native.stem(name, self.image, self.weights.ravel(), **geometry, pixel=self.pixel, end=ends.given())
        assert done
        return ends.results()


@every_kernel
@given(case=cases(4))
@thorough
def test_kernels_equal_the_reference(name, case):
    problem = Problem(replace(case, dyadic=True))
    for got, want in zip(problem.run(name), problem.run("reference"), strict=True):
        np.testing.assert_array_equal(got, want)


@given(cases(4))
@thorough
def test_the_reference_is_as_good_as_float32(case):
    case = replace(case, act="none", shortcut="none", out=True, after=False, threshold=False)
    problem = Problem(case)
    case, ends = problem.case, Ends(problem.case)
    scale, shift = problem.pixel.astype(np.float64)
    image = problem.image * scale + shift
    weights = [problem.weights.astype(np.float64)]
    sums = convolve(image, weights, case)
    exact = ends.numbers["scale"].astype(np.float64) * sums + ends.numbers["shift"]
    # What is rounded: weights, by 2^-24 of the channel's largest, and sums, of pixels up to 128 from their middle.
    middle, reach = np.abs(128 * scale + shift), 128 * np.abs(scale)
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
def test_any_rows_give_the_whole(name):
    whole = Problem(Case(3, 40, 11, 30, kernel=(7, 7), stride=(2, 2), padding=(3, 3), shortcut="own"))
    out, codes = whole.run(name)
    shortcut = Ends(whole.case).shortcut
    for first in range(0, 6, 2):
        part = replace(whole.case, first=first, last=6)
        ends, geometry = Ends(part), part.geometry()
        del geometry["groups"]
        ends.shortcut[...] = shortcut[first:]
        native.stem(name, whole.image, whole.weights.ravel(), **geometry, pixel=whole.pixel, end=ends.given())
        assert_same(ends.results(), (out[first:], codes[first:]))
