"""Binary convolutions by every kernel of this machine, against the reference, and that against NumPy.

AMX kernels are compiled for emulated tiles, which run anywhere, and for AMX. Without AMX every one of its instructions
faults, is decoded and emulated: slow, but the machine code that ships.
"""

from dataclasses import replace

import numpy as np
import pytest
from convolution import Case, Ends, assert_same, cases, check_copies, convolve, groups_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ftbnn import _native_tests as native

native.trap_tiles()
KERNELS = native.kernels("bconv")
JOINED = [name for name in KERNELS if native.joins_groups(name)]
TILES = [name for name in KERNELS if name.startswith("amx")]
LEAST_POSITIONS = 16  # of an output, for tiles

every_kernel = pytest.mark.parametrize("name", KERNELS)
thorough = settings(max_examples=80, deadline=None)


def packed(bits: np.ndarray) -> np.ndarray:
    """[..., channels] to [..., words], channel c to bit c % 64 of word c // 64."""
    words = np.zeros((*bits.shape[:-1], (bits.shape[-1] + 63) // 64 * 64), np.uint8)
    words[..., : bits.shape[-1]] = bits
    return np.packbits(words, axis=-1, bitorder="little").view(np.uint64)


class Problem:
    """The numbers of a case: as bits for the kernels, as integers for NumPy."""

    def __init__(self, case: Case, *, runs: list[list[tuple[int, int]]] | None = None, ones: bool = False) -> None:
        rng = np.random.default_rng(case.seed)
        self.case = case
        shape = (case.h, case.w, case.inputs)
        self.bits = np.ones(shape, np.int64) if ones else rng.integers(0, 2, shape)
        ins, outs = groups_of(case.inputs, case.groups), groups_of(case.outputs, case.groups)
        self.weights = [
            np.ones((len(o), len(i), *case.kernel), np.int64)
            if ones
            else rng.integers(0, 2, (len(o), len(i), *case.kernel))
            for i, o in zip(ins, outs, strict=True)
        ]
        self.runs = runs or [[(group.start, len(group))] for group in ins]
        used = max(first + count for group in self.runs for first, count in group)
        self.used = used + (int(rng.integers(0, 70)) if runs else 0)
        self.codes = packed(self.spread())

    def spread(self) -> np.ndarray:
        """The channels' bits where the runs have them, among bits of others."""
        to = np.random.default_rng(self.case.seed + 3).integers(0, 2, (*self.bits.shape[:2], self.used))
        for group, channels in zip(self.runs, groups_of(self.case.inputs, self.case.groups), strict=True):
            at = channels.start
            for first, count in group:
                to[..., first : first + count] = self.bits[..., at : at + count]
                at += count
        return to

    def sums(self) -> np.ndarray:
        values = self.bits if self.case.zero_one else 2 * self.bits - 1
        return convolve(values, [2 * weight - 1 for weight in self.weights], self.case)

    def run(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        ends = Ends(self.case, joined=name in JOINED)
        self.convolve(name, ends.given())
        return ends.results()

    def convolve(self, name: str, end: dict) -> None:
        case = self.case
        words = [packed(weight.transpose(0, 2, 3, 1)).ravel() for weight in self.weights]
        native.bconv(
            name,
            self.codes,
            self.used,
            self.runs,
            case.inputs,
            np.concatenate(words),
            **case.geometry(),
            zero_one=case.zero_one,
            has_border=case.has_border,
            end=end,
        )


def fitting(name: str, case: Case) -> Case:
    """The case, taller where tiles would not do it."""
    if name not in TILES or case.size[0] * case.size[1] >= LEAST_POSITIONS:
        return case
    return replace(case, h=case.h + LEAST_POSITIONS * case.stride[0], extra=(0, case.extra[1]), last=None)


@given(cases(100, 40))
@thorough
def test_the_reference_is_the_convolution_with_zero_padding(case):
    problem = Problem(case)
    assert_same(problem.run("reference"), Ends(case).expected(problem.sums()))


@every_kernel
@given(case=cases(200))
@thorough
def test_kernels_equal_the_reference(name, case):
    problem = Problem(fitting(name, case))
    assert_same(problem.run(name), problem.run("reference"))


@every_kernel
@given(case=cases(200))
@thorough
def test_a_part_of_the_channels_alone(name, case):
    """The first channels of a wider value: what lies behind them in the same word is not theirs."""
    case = replace(fitting(name, case), groups=1, has_border=True)
    problem = Problem(case, runs=[[(0, case.inputs)]])
    assert_same(problem.run(name), problem.run("reference"))


@every_kernel
@given(case=cases(200))
@thorough
def test_channels_may_lie_anywhere(name, case):
    """Runs of bits: from any one on, in several pieces, the same for several groups, in words of a wider position."""
    rng = np.random.default_rng(case.seed + 2)
    case = fitting(name, case)
    runs, at = [], int(rng.integers(0, 70))
    for group in groups_of(case.inputs, case.groups):
        if runs and rng.random() < 0.3 and sum(count for _, count in runs[0]) == len(group):
            runs.append(runs[0])
            continue
        cut = int(rng.integers(0, len(group))) if rng.random() < 0.5 else 0
        pieces = [cut, len(group) - cut] if cut else [len(group)]
        runs.append([])
        for count in pieces:
            runs[-1].append((at, count))
            at += count + int(rng.integers(0, 40))
    problem = Problem(case, runs=runs)
    for first, group in zip(runs, groups_of(case.inputs, case.groups), strict=True):
        if runs.index(first) != runs[::-1].index(first):  # groups that share their runs share their bits
            problem.bits[..., group.start : group.stop] = problem.bits[..., : len(group)]
    problem.codes = packed(problem.spread())
    assert_same(problem.run(name), problem.run("reference"))


@st.composite
def narrow(draw) -> Case:
    """Groups whose channels fill no word: what tiles take by runs of bytes, of one kernel row or of all."""
    case = draw(cases(80, 48))
    groups = draw(st.integers(1, 4))
    inputs = groups * case.inputs + draw(st.integers(0, groups - 1))
    outputs = groups * case.outputs + draw(st.integers(0, groups - 1))
    return replace(case, groups=groups, inputs=inputs, outputs=outputs)


@every_kernel
@given(case=narrow())
@thorough
def test_narrow_groups(name, case):
    problem = Problem(fitting(name, case))
    assert_same(problem.run(name), problem.run("reference"))


# Few outputs make it cheaper to write few bytes, many to have few steps.
@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize("outputs", [5, 80])
@pytest.mark.parametrize("stride", [1, 2])
def test_tiles_take_any_number_of_channels(name, outputs, stride):
    for channels in range(1, 81):
        case = Case(channels, outputs, 7, 9, stride=(stride, stride), zero_one=bool(channels % 2), seed=channels)
        problem = Problem(case)
        assert_same(problem.run(name), problem.run("reference"))


@every_kernel
@pytest.mark.parametrize("channels", [35, 70])
def test_groups_that_read_the_same_bits(name, channels):
    """Also the last, which has more outputs."""
    case = Case(3 * channels, 3 * 40 + 2, 7, 9, groups=3)
    problem = Problem(case, runs=[[(3, channels)]] * 3)
    problem.bits = np.tile(problem.bits[..., :channels], 3)
    problem.codes = packed(problem.spread())
    assert_same(problem.run(name), problem.run("reference"))


# Of 3x3, as many channels out as in: 9 taps of whole words, and the rest by runs of a kernel row (35) or of all.
@pytest.mark.parametrize(
    ("channels", "steps"), [(64, 9), (128, 18), (16, 3), (35, 6), (50, 9), (70, 10), (140, 20), (281, 40)]
)
def test_steps_of_tiles(channels, steps):
    assert native.tile_steps(channels, channels, 3) == steps


@pytest.mark.parametrize("name", TILES)
def test_what_suits_tiles(name):
    """Maps that fill a tile, and groups of which more than a third of a product is somebody's."""
    for channels, size in ((64, 56), (512, 7), (512, 4), (175, 56), (16, 14)):
        assert native.suits(name, channels, channels, 5 if channels == 175 else 1, 3, size)
    assert not native.suits(name, 512, 512, 1, 3, 3)
    assert not native.suits(name, 64, 64, 8, 3, 56)
    assert not native.suits(name, 64, 64, 64, 3, 56)


@every_kernel
@given(case=cases(100))
@thorough
def test_codes_in_copies(name, case):
    problem = Problem(fitting(name, case))
    check_copies(problem.case, case.seed, lambda end: problem.convolve(name, end), joined=name in JOINED)


# One epilogue for all kernels of an ISA: tiles give the floats of vectors.
@pytest.mark.skipif("avx512 adders" not in KERNELS, reason="no AVX-512")
def test_what_suits_adders():
    """Whatever fills a good part of 256 or 512 lanes with output channels of one group."""
    for channels, groups, suits in ((64, 1, False), (200, 1, True), (512, 1, True), (700, 5, False), (1405, 5, True)):
        assert native.suits("avx512 adders", channels, channels, groups, 3, 7) == suits
    assert not native.suits("avx512 adders", 64, 1100, 2, 3, 7)  # groups of more than one call's panels


# Output channels in one call and in several, in half a vector and in whole ones; groups alike and not alike.
@pytest.mark.skipif("avx512 adders" not in KERNELS, reason="no AVX-512")
@given(case=cases(60, 1200), size=st.integers(1, 6))
@thorough
def test_adders_of_many_output_channels(case, size):
    case = replace(case, w=max(size, case.kernel[1]))
    problem = Problem(case)
    assert_same(problem.run("avx512 adders"), problem.run("reference"))


@pytest.mark.parametrize("name", TILES)
@given(case=cases(200))
@thorough
def test_tiles_give_the_floats_of_vectors(name, case):
    problem = Problem(replace(fitting(name, case), dyadic=False))
    vectors = next(kernel for kernel in ("avx512", "avx512 tables") if kernel in KERNELS)
    assert_same(problem.run(name), problem.run(vectors))


# Kernels count in bytes before they count in integers: runs of any length, in one row of taps or more, overflow none.
@every_kernel
@pytest.mark.parametrize("kernel", [(1, 1), (1, 4), (3, 1), (3, 3), (2, 5)])
def test_full_counts_do_not_overflow(name, kernel):
    sums = 32767  # of planes and adders, which say so
    most = 69 if name in TILES else sums // (64 * kernel[0] * kernel[1])
    for words in range(1, min(70, most + 1), 3 if name in TILES else 1):
        case = Case(64 * words, 8, 5, 7, kernel=kernel, padding=(0, 0), zero_one=True, act="none", seed=words)
        problem = Problem(fitting(name, case), ones=True)
        assert_same(problem.run(name), problem.run("reference"))


# The shapes that kernels specialise, and widths that cut into full tiles, tails or both.
@every_kernel
@pytest.mark.parametrize("zero_one", [False, True])
@pytest.mark.parametrize("width", [7, 13, 14, 28, 56])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [64, 128, 256, 512])
def test_layers_of_networks(name, channels, stride, width, zero_one):
    strides = (stride, stride)
    case = Case(channels, 40, 5, width * stride, stride=strides, zero_one=zero_one, shortcut="own", seed=width)
    problem = Problem(case)
    assert_same(problem.run(name), problem.run("reference"))


@every_kernel
@pytest.mark.parametrize("channels", [(35, 35), (70, 70), (13, 29), (5, 100), (64, 64)])
@pytest.mark.parametrize("groups", [2, 3, 5])
def test_groups_of_networks(name, channels, groups):
    case = Case(groups * channels[0], groups * channels[1], 9, 14, groups=groups, seed=groups)
    problem = Problem(case)
    assert_same(problem.run(name), problem.run("reference"))


@every_kernel
@pytest.mark.parametrize("inputs", [100, 140])
def test_any_rows_give_the_whole(name, inputs):
    case = Case(inputs, 70, 11, 9, groups=2, shortcut="own", dyadic=False)
    whole = Problem(case)
    out, codes = whole.run(name)
    shortcut = Ends(case).shortcut
    for first in range(11):
        for last in range(first + 1, 12):
            part = Problem(replace(case, first=first, last=last))
            ends = Ends(part.case, joined=name in JOINED)
            ends.shortcut[...] = shortcut[first:last]
            words = np.concatenate([packed(weight.transpose(0, 2, 3, 1)).ravel() for weight in whole.weights])
            arguments = {"zero_one": False, "has_border": True, "end": ends.given()}
            native.bconv(name, whole.codes, inputs, whole.runs, inputs, words, **part.case.geometry(), **arguments)
            assert_same(ends.results(), (out[first:last], codes[first:last]))


WRONG = {
    "no such kernels": {"name": "sse9"},
    "act must be": {"end": {"act": "gelu"}},
    "groups must be": {"groups": 65},
    "sizes must be": {"stride": (0, 1)},
    "weights must be": {"weights": np.zeros(5, np.uint64)},
    "runs must be": {"runs": [[(0, 64)], [(0, 64)]]},
    "runs must have": {"runs": [[(0, 63)]]},
    "a run is outside": {"runs": [[(1, 64)]]},
    "results and shortcut": {"end": {"out": np.zeros((6, 6, 32), np.float32)}},
    "numbers of an epilogue": {"end": {"scale": np.zeros(31, np.float32)}},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_sizes_are_refused(message):
    problem = Problem(Case(64, 32, 6, 7))
    words = packed(problem.weights[0].transpose(0, 2, 3, 1)).ravel()
    right = {
        "name": "portable",
        "codes": problem.codes,
        "bits": 64,
        "runs": problem.runs,
        "inputs": 64,
        "weights": words,
    }
    right |= problem.case.geometry() | {"zero_one": False, "has_border": True, "end": {}}
    native.bconv(**right)
    with pytest.raises(ValueError, match=message):
        native.bconv(**right | WRONG[message])
