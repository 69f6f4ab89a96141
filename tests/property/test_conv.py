"""Real convolutions by every kernel of this machine, against the reference, and that against NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from convolution import HALF_UNIT, Case, Ends, assert_same, cases, convolve, groups_of
from hypothesis import given, settings

from ftbnn import _native_tests as native

KERNELS = native.kernels("conv")
every_kernel = pytest.mark.parametrize("name", KERNELS)
thorough = settings(max_examples=100, deadline=None)


class Problem:
    def __init__(self, case: Case, *, integers: bool) -> None:
        rng = np.random.default_rng(case.seed)

        def numbers(*shape: int) -> np.ndarray:
            found = rng.integers(-4, 5, shape) if integers else rng.standard_normal(shape)
            return found.astype(np.float32)

        self.case, self.image = case, numbers(case.h, case.w, case.inputs)
        pairs = zip(groups_of(case.inputs, case.groups), groups_of(case.outputs, case.groups), strict=True)
        self.weights = [numbers(len(outs), len(ins), *case.kernel) for ins, outs in pairs]

    def run(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        ends = Ends(self.case)
        flat = np.concatenate([weight.ravel() for weight in self.weights])
        native.conv(name, self.image, flat, **self.case.geometry(), end=ends.given())
        return ends.results()


@given(cases(9, 40))
@thorough
def test_the_reference_is_the_convolution_with_zero_padding(case):
    problem = Problem(case, integers=True)
    sums = convolve(problem.image.astype(np.int64), [w.astype(np.int64) for w in problem.weights], case)
    assert_same(problem.run("reference"), Ends(case).expected(sums))


@every_kernel
@given(case=cases(20))
@thorough
def test_integers_equal_the_reference(name, case):
    problem = Problem(case, integers=True)
    assert_same(problem.run(name), problem.run("reference"))


@every_kernel
@given(case=cases(20))
@thorough
def test_floats_differ_from_the_reference_by_rounding(name, case):
    case = replace(case, act="none", shortcut="none", out=True, codes=False, after=False, threshold=False)
    problem = Problem(case, integers=False)
    got, _ = problem.run(name)
    want, _ = problem.run("reference")
    ends = Ends(case)
    magnitude = convolve(np.abs(problem.image), [np.abs(w) for w in problem.weights], case)
    terms = max(w[0].size for w in problem.weights) + 2
    bound = 2 * terms * HALF_UNIT * (np.abs(ends.numbers["scale"]) * magnitude + np.abs(ends.numbers["shift"]))
    assert (np.abs(got - want)[:, : case.size[1], : case.outputs] <= bound).all()


# One order of summation: those that fuse agree with each other to the last bit, those that do not with the reference.
@given(case=cases(20))
@thorough
def test_floats_are_summed_in_one_order(case):
    problem = Problem(replace(case, dyadic=False), integers=False)
    results = {name: problem.run(name) for name in [*KERNELS, "reference"]}
    for name in KERNELS:
        assert_same(results[name], results["reference" if name == "portable" else KERNELS[0]])


@every_kernel
def test_any_rows_give_the_whole(name):
    case = Case(7, 40, 11, 9, groups=2, shortcut="own", dyadic=False)
    whole = Problem(case, integers=False)
    out, codes = whole.run(name)
    shortcut = Ends(case).shortcut
    for first in range(0, 11, 3):
        for last in range(first + 1, 12, 2):
            part = Problem(replace(case, first=first, last=last), integers=False)
            ends = Ends(part.case)
            ends.shortcut[...] = shortcut[first:last]
            flat = np.concatenate([weight.ravel() for weight in whole.weights])
            native.conv(name, whole.image, flat, **part.case.geometry(), end=ends.given())
            assert_same(ends.results(), (out[first:last], codes[first:last]))
