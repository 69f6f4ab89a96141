"""Real convolutions by every kernel of this machine, against the reference, and that against NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from convolution import HALF_UNIT, Case, Ends, assert_same, cases, convolve, groups_of
from hypothesis import given, settings

from ftbnn import _native_tests as native

FAST = [name for name in native.kernels("conv") if "winograd" in name]  # sums in another order, of stems alone
KERNELS = [name for name in native.kernels("conv") if name not in FAST]
every_kernel = pytest.mark.parametrize("name", KERNELS)
fast_kernel = pytest.mark.parametrize("name", FAST)
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


def stem(case: Case) -> Case:
    """The case as a stem: a large window, stride 2, few channels."""
    lot = np.random.default_rng(case.seed)
    kernel = int(lot.integers(7, 9)), int(lot.integers(7, 9))
    padding = int(lot.integers(0, kernel[0])), int(lot.integers(0, kernel[1]))
    sides = {"h": 30 + case.h, "w": 30 + case.w}
    last = int(lot.integers(1, 12))
    return replace(
        case,
        inputs=1 + case.inputs % 4,
        groups=1,
        kernel=kernel,
        stride=(2, 2),
        padding=padding,
        extra=(0, 0),
        first=int(lot.integers(0, last)),
        last=last,
        **sides,
    )


@fast_kernel
@given(case=cases(20))
@thorough
def test_stems_in_fewer_products_differ_by_rounding(name, case):
    """Of the magnitude of what a tile sums; the epilogue is compared where that leaves signs and codes alone."""
    case = replace(stem(case), after=False, threshold=False, shortcut="none", out=True)
    problem = Problem(case, integers=False)
    (out, codes), (want, right) = problem.run(name), problem.run("reference")
    numbers = Ends(case).numbers
    slopes = np.maximum(1, np.maximum(np.abs(numbers["left"]), np.abs(numbers["right"])))
    whole = replace(case, first=0, last=None)
    magnitude = convolve(np.abs(problem.image), [np.abs(w) for w in problem.weights], whole).max((0, 1))
    bound = 32 * HALF_UNIT * slopes * (np.abs(numbers["scale"]) * magnitude + np.abs(numbers["shift"]))
    inside = np.s_[:, : case.size[1], : case.outputs]
    assert (np.abs(out - want)[inside] <= bound).all()
    assert (np.delete(out, np.s_[: case.outputs], 2) == np.delete(want, np.s_[: case.outputs], 2)).all()  # guards
    if case.codes and (np.abs(want[inside]) > bound).all():
        assert (codes == right).all()


@fast_kernel
def test_any_rows_of_a_stem_give_the_whole(name):
    case = Case(3, 40, 31, 29, kernel=(7, 7), stride=(2, 2), padding=(3, 3), dyadic=False)
    whole = Problem(case, integers=False)
    out, codes = whole.run(name)
    for first in range(0, 16, 2):
        for last in range(first + 1, 17, 3):
            part = Problem(replace(case, first=first, last=last), integers=False)
            assert_same(part.run(name), (out[first:last], codes[first:last]))
