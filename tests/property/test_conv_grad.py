"""Gradients of the binary convolution against float64, for every kernel that can run here.

Codes and signs are exact in every kernel, so what differs is the rounding of gy and of the sums. bf16 keeps 8 bits of a
value: rounding to nearest is off by at most 2**-9 of it, and so is a sum of such terms by 2**-9 of the sum of their
magnitudes; the bound leaves as much again for sums in float. Bytes are off by less than a step, 1/126.9 of the largest
gradient of the image (towards x) or of the channel (towards the weights).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from convolution import groups_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ftbnn import _native_tests as native

native.trap_tiles()
ISAS = [name for name in native.grad_kernels() if name != "amx"]  # a trap for every instruction: too many here
BF16 = {"avx512bf16", "amx_emulated"}
BYTES = {name for name in ISAS if name.endswith(" bytes")}
STEPS = 126.9
FLOAT_ERROR, BF16_ERROR = 1e-4, 2.0**-8
BOUND = 1.2

every_isa = pytest.mark.parametrize("isa", ISAS)
every_bytes = pytest.mark.parametrize("isa", sorted(BYTES))
thorough = settings(max_examples=60, deadline=None)


@dataclass(frozen=True)
class Conv:
    n: int
    h: int
    w: int
    inputs: int
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (1, 1)
    groups: int = 1
    zero_one: bool = False
    threads: int = 1
    seed: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        return (
            *(self.n, self.h, self.w, self.inputs, self.outputs),
            *(*self.kernel, *self.stride, *self.padding, self.groups),
        )

    @property
    def out_size(self) -> tuple[int, int]:
        size, kernel, stride, padding = (self.h, self.w), self.kernel, self.stride, self.padding
        return tuple((size[k] + 2 * padding[k] - kernel[k]) // stride[k] + 1 for k in range(2))


@st.composite
def convs(draw) -> Conv:
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    padding = draw(st.tuples(st.integers(0, kernel[0]), st.integers(0, kernel[1])))
    inputs, outputs = draw(st.tuples(st.integers(1, 80), st.integers(1, 80)))
    return Conv(
        n=draw(st.integers(1, 19)),
        h=draw(st.integers(max(1, kernel[0] - 2 * padding[0]), 9)),
        w=draw(st.integers(max(1, kernel[1] - 2 * padding[1]), 9)),
        inputs=inputs,
        outputs=outputs,
        kernel=kernel,
        stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        padding=padding,
        groups=draw(st.one_of(st.just(1), st.integers(1, min(inputs, outputs, 9)))),
        zero_one=draw(st.booleans()),
        threads=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def packed(bits: np.ndarray) -> np.ndarray:
    """(..., channels) of 0 and 1 to (..., words); bits past the last channel are set, for nobody may look at them."""
    spare = -bits.shape[-1] % 64
    padded = np.pad(bits.astype(np.uint8), [(0, 0)] * (bits.ndim - 1) + [(0, spare)], constant_values=1)
    return np.packbits(padded, axis=-1, bitorder="little").view("<u8")


def random_weights(lot: np.random.Generator, conv: Conv) -> list[np.ndarray]:
    """Those of all groups; where the last one is larger, its own apart."""
    ins, outs = groups_of(conv.inputs, conv.groups), groups_of(conv.outputs, conv.groups)
    even = len(ins[0]) == len(ins[-1]) and len(outs[0]) == len(outs[-1])
    shapes = [(sum(map(len, outs if even else outs[:-1])), len(ins[0]), *conv.kernel)]
    shapes += [] if even else [(len(outs[-1]), len(ins[-1]), *conv.kernel)]
    return [lot.standard_normal(shape).astype(np.float32) for shape in shapes]


def by_group(conv: Conv, arrays: list[np.ndarray]) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Inputs and outputs of each group, and its part of arrays as random_weights makes them."""
    pairs = zip(groups_of(conv.inputs, conv.groups), groups_of(conv.outputs, conv.groups), strict=True)
    for number, (ins, outs) in enumerate(pairs):
        is_apart = len(arrays) == 2 and number == conv.groups - 1
        own = arrays[1] if is_apart else arrays[0][outs.start : outs.stop]
        yield slice(ins.start, ins.stop), slice(outs.start, outs.stop), own


def by_tap(conv: Conv, x: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """What each tap of the windows sees of images with their border."""
    (kh, kw), (sh, sw), (oh, ow) = conv.kernel, conv.stride, conv.out_size
    for ky in range(kh):
        for kx in range(kw):
            yield ky, kx, x[:, ky : ky + (oh - 1) * sh + 1 : sh, kx : kx + (ow - 1) * sw + 1 : sw]


def with_border(conv: Conv, x: np.ndarray) -> np.ndarray:
    return np.pad(x, [(0, 0), *((p, p) for p in conv.padding), (0, 0)])


class Case:
    """Random operands, what the kernels make of them, and the sums and sums of magnitudes in float64."""

    def __init__(self, conv: Conv) -> None:
        lot = np.random.default_rng(conv.seed)
        self.conv = conv
        self.gy = lot.standard_normal((conv.n, *conv.out_size, conv.outputs)).astype(np.float32)
        self.bits = lot.integers(0, 2, (conv.n, conv.h, conv.w, conv.inputs))
        self.gx = lot.standard_normal(self.bits.shape).astype(np.float32)
        self.weights = random_weights(lot, conv)
        for weight in self.weights:
            weight.flat[0] = 0.0
            weight.flat[-1] = np.float32(BOUND)

    def addresses(self, arrays: list[np.ndarray]) -> list[int]:
        return [array.ctypes.data for array in arrays] + [0] * (2 - len(arrays))

    def run(self, isa: str, threads: int | None = None, **to: int | bool) -> None:
        given = [isa, self.conv.sizes, self.gy.ctypes.data, *self.addresses(self.weights)]
        settings = {"zero_one": self.conv.zero_one, "bound": BOUND, "threads": threads or self.conv.threads}
        native.conv_gradients(*given, **settings, **to)

    def grad_input(self, isa: str, threads: int | None = None) -> np.ndarray:
        gx, inside = self.gx.copy(), packed(self.bits)
        self.run(isa, threads, inside=inside.ctypes.data, gx=gx.ctypes.data)
        return gx

    def grad_weight(self, isa: str, threads: int | None = None) -> list[np.ndarray]:
        grads, codes = [np.full_like(weight, np.nan) for weight in self.weights], packed(self.bits)
        gw, gtail = self.addresses(grads)
        self.run(isa, threads, codes=codes.ctypes.data, gw=gw, gtail=gtail)
        return grads

    def both(self, isa: str) -> tuple[np.ndarray, list[np.ndarray]]:
        gx, bits, grads = self.gx.copy(), packed(self.bits), [np.full_like(weight, np.nan) for weight in self.weights]
        gw, gtail = self.addresses(grads)
        to_input = {"inside": bits.ctypes.data, "gx": gx.ctypes.data}
        self.run(isa, **to_input, codes=bits.ctypes.data, gw=gw, gtail=gtail)
        return gx, grads

    def expected(self, *, magnitudes: bool, gy: np.ndarray | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
        conv, codes = self.conv, self.bits if self.conv.zero_one else 2 * self.bits - 1
        x, gy = with_border(conv, codes.astype(np.float64)), (self.gy if gy is None else gy).astype(np.float64)
        signs = [np.where(weight > 0, 1.0, -1.0) for weight in self.weights]
        if magnitudes:
            x, gy, signs = np.abs(x), np.abs(gy), [np.abs(sign) for sign in signs]
        gx, gws = np.zeros_like(x), [np.zeros_like(sign) for sign in signs]
        for (ins, outs, sign), (_, _, gw) in zip(by_group(conv, signs), by_group(conv, gws), strict=True):
            grad = gy[..., outs]
            for (ky, kx, seen), (_, _, to) in zip(by_tap(conv, x), by_tap(conv, gx), strict=True):
                to[..., ins] += grad @ sign[:, :, ky, kx]
                gw[:, :, ky, kx] = np.tensordot(grad, seen[..., ins], ([0, 1, 2], [0, 1, 2]))
        (ph, pw), (h, w) = conv.padding, (conv.h, conv.w)
        return gx[:, ph : ph + h, pw : pw + w], gws

    def errors(self, isa: str) -> tuple[np.ndarray, list[np.ndarray]]:
        """How far off each gradient may be."""
        if isa not in BYTES:
            gx, gws = self.expected(magnitudes=True)
            error = BF16_ERROR if isa in BF16 else FLOAT_ERROR
            return error * gx, [error * gw for gw in gws]
        sizes, margin = np.abs(self.gy).astype(np.float64), 1 + FLOAT_ERROR
        of_images = np.broadcast_to(sizes.max(axis=(1, 2, 3), keepdims=True), sizes.shape)
        of_channels = np.broadcast_to(sizes.max(axis=(0, 1, 2), keepdims=True), sizes.shape)
        return (
            self.expected(magnitudes=True, gy=of_images / STEPS * margin)[0],
            self.expected(magnitudes=True, gy=of_channels / STEPS * margin)[1],
        )

    def check(self, isa: str) -> None:
        gx, gws = self.expected(magnitudes=False)
        gx_error, gw_errors = self.errors(isa)
        got = self.grad_input(isa)
        assert np.array_equal(got[self.bits == 0], self.gx[self.bits == 0])
        expected = np.where(self.bits, self.gx + gx, self.gx)
        assert np.all(np.abs(got - expected) <= gx_error + 2.0**-22 * np.abs(self.gx))
        for got, weight, gw, error in zip(self.grad_weight(isa), self.weights, gws, gw_errors, strict=True):
            passes = np.abs(weight) <= np.float32(BOUND)
            assert np.all(got[~passes] == 0)
            assert np.all((np.abs(got - gw) <= error)[passes])


@every_isa
@thorough
@given(convs())
@example(Conv(128, 4, 4, 96, 70))
@example(Conv(3, 40, 40, 20, 33, threads=2))  # several slices of the weight gradient
@example(Conv(301, 2, 3, 5, 4))
@example(Conv(1, 1, 1, 1, 1, padding=(2, 2)))
@example(Conv(2, 12, 11, 3, 5, kernel=(11, 10)))  # nearly as many taps as there may be
@example(Conv(2, 5, 7, 64, 32, kernel=(1, 1), padding=(0, 0), stride=(3, 2)))  # pixels that no window meets
@example(Conv(4, 8, 8, 130, 65, groups=4, zero_one=True))
@example(Conv(4, 9, 8, 48, 49, groups=5))  # groups that are multiplied together
def test_gradients_are_the_sums(isa, conv):
    Case(conv).check(isa)


@every_isa
def test_the_number_of_threads_changes_no_bit(isa):
    case = Case(Conv(9, 23, 31, 48, 40))
    assert np.array_equal(case.grad_weight(isa, 1)[0], case.grad_weight(isa, 3)[0])
    assert np.array_equal(case.grad_input(isa, 1), case.grad_input(isa, 3))


@every_isa
@pytest.mark.parametrize(
    "conv",
    [
        Conv(3, 9, 8, 48, 49, groups=5),
        Conv(4, 7, 9, 100, 24, stride=(2, 3), threads=2),
        Conv(2, 5, 7, 200, 32, kernel=(1, 1), padding=(0, 0), stride=(3, 2)),  # pixels that no window meets
        Conv(2, 8, 8, 100, 24, kernel=(3, 1), padding=(0, 0), stride=(4, 2)),
    ],
)
def test_a_gradient_that_is_made_is_one_that_is_added_to_nothing(isa, conv):
    case = Case(conv)
    made, bits = np.full_like(case.gx, np.nan), packed(case.bits)
    case.run(isa, inside=bits.ctypes.data, gx=made.ctypes.data, adds=False)
    case.gx[:] = 0
    assert np.array_equal(made, case.grad_input(isa))


@every_isa
def test_both_gradients_in_one_call_are_the_two(isa):
    case = Case(Conv(9, 13, 11, 48, 40, stride=(2, 1), groups=3))
    gx, grads = case.both(isa)
    assert np.array_equal(gx, case.grad_input(isa))
    assert all(np.array_equal(*pair) for pair in zip(grads, case.grad_weight(isa), strict=True))


@pytest.mark.parametrize("isa", sorted(BF16.intersection(ISAS)))
def test_bf16_is_what_the_bound_is_for(isa):
    """Gradients that bf16 can hold come out as with float; any others do not."""
    case = Case(Conv(4, 6, 6, 40, 24))
    exact = case.gy.view(np.uint32) & np.uint32(0xFFFF0000)
    gx, _ = case.expected(magnitudes=False)
    assert np.abs(case.grad_input(isa) - np.where(case.bits, case.gx + gx, case.gx)).max() > 1e-3
    case.gy = exact.view(np.float32)
    gx, _ = case.expected(magnitudes=False)
    assert np.abs(case.grad_input(isa) - np.where(case.bits, case.gx + gx, case.gx)).max() < 1e-4


@pytest.mark.parametrize("isa", sorted(BYTES - {"portable bytes"}))
@thorough
@given(convs())
@example(Conv(128, 4, 4, 96, 70))
@example(Conv(3, 40, 40, 20, 33, threads=2))
@example(Conv(4, 8, 8, 130, 65, groups=4, zero_one=True))
@example(Conv(9, 6, 7, 130, 33, threads=2, zero_one=True))  # wide enough for look-ups
@example(Conv(7, 9, 5, 130, 33, stride=(2, 3), padding=(2, 0), threads=3))
def test_bytes_are_the_references_to_the_last_bit(isa, conv):
    case = Case(conv)
    assert np.array_equal(case.grad_input(isa), case.grad_input("portable bytes"))
    pairs = zip(case.grad_weight(isa), case.grad_weight("portable bytes"), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


def as_bytes(gy: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """What native/kernels/conv_grad/rounding.h makes of gradients, in their own unit."""
    chance = ((gy.view(np.uint32).astype(np.uint64) * 0x9E3779B1 & 0xFFFFFFFF) >> 16) / 2.0**16
    largest = largest.astype(np.float32)
    steps = np.floor(gy * (np.float32(STEPS) / largest) + chance.astype(np.float32))
    return steps.astype(np.float64) * (largest / np.float32(STEPS))


@every_bytes
def test_bytes_are_rounded_as_the_contract_says(isa):
    case = Case(Conv(5, 9, 7, 40, 24))
    gy, signs = as_bytes(case.gy, np.abs(case.gy).max(axis=(1, 2, 3), keepdims=True)), case.bits != 0
    gx, _ = case.expected(magnitudes=False, gy=gy)
    assert np.abs(case.grad_input(isa) - case.gx - np.where(signs, gx, 0)).max() < 1e-4
    gy = as_bytes(case.gy, np.abs(case.gy).max(axis=(0, 1, 2), keepdims=True))  # one slice
    _, gws = case.expected(magnitudes=False, gy=gy)
    passes = np.abs(case.weights[0]) <= np.float32(BOUND)
    assert np.abs(case.grad_weight(isa)[0] - np.where(passes, gws[0], 0)).max() < 1e-3


@every_bytes
def test_bytes_are_right_on_average(isa):
    """A sum over many has the error of chance, not of rounding all of them the same way."""
    case = Case(Conv(16, 16, 16, 8, 8))
    case.gy = 0.003 + 0.001 * case.gy  # well below half a step
    case.gy[:, 0, 0, :] = 1.0
    case.weights[0][:] = 0.5
    _, gws = case.expected(magnitudes=False)
    step, count = 1 / STEPS, 16 * 16 * 16
    assert np.abs(case.grad_weight(isa)[0] - gws[0]).max() < 5 * step / 2 * count**0.5


@every_bytes
@settings(max_examples=4, deadline=None)
@given(convs())
@example(Conv(4, 9, 9, 40, 24))
@example(Conv(3, 8, 7, 48, 48, groups=5, stride=(2, 1)))
def test_many_roundings_average_to_the_gradient(isa, conv):
    """Chance is a value's own bits, so each factor is another rounding: the mean's error is that of chance alone."""
    case, turns = Case(conv), 256
    gy, case.gx[:] = case.gy.copy(), 0
    gx, gws = case.expected(magnitudes=False)
    # Rounding one element has a variance of a quarter of a squared step at most, and a sum adds those of its elements.
    steps = np.abs(gy).max(axis=(1, 2, 3), keepdims=True) / STEPS, np.abs(gy).max(axis=(0, 1, 2), keepdims=True) / STEPS
    squares = [case.expected(magnitudes=True, gy=np.broadcast_to(step**2 / 4, gy.shape)) for step in steps]
    gx_mean, gw_means = np.zeros_like(gx), [np.zeros_like(gw) for gw in gws]
    for factor in np.exp2(np.arange(turns) / turns).astype(np.float32):
        case.gy = gy * factor
        gx_mean += case.grad_input(isa) / factor / turns
        grads = case.grad_weight(isa)
        gw_means = [mean + gw / factor / turns for mean, gw in zip(gw_means, grads, strict=True)]
    inside = case.bits == 1
    assert np.all(np.abs(gx_mean - gx)[inside] <= 6 * np.sqrt(squares[0][0] / turns)[inside] + 1e-4)
    for mean, gw, square, weight in zip(gw_means, gws, squares[1][1], case.weights, strict=True):
        passes = np.abs(weight) <= np.float32(BOUND)
        assert np.all(np.abs(mean - gw)[passes] <= 6 * np.sqrt(square / turns)[passes] + 1e-4)


@every_bytes
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_stays_visible_in_bytes(isa, bad):
    case = Case(Conv(3, 5, 5, 8, 8))
    case.bits[:] = 1
    case.gy[1, 2, 2, 3] = bad
    gx = case.grad_input(isa)
    assert np.isnan(gx[1]).any()
    assert np.isfinite(gx[[0, 2]]).all()
    gw = case.grad_weight(isa)[0]
    assert np.isnan(gw[3]).any()
    assert np.isfinite(np.delete(gw, 3, axis=0)).all()


@every_bytes
@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-38, 1e-20, 1e20, 1e36])
def test_bytes_of_any_size(isa, size):
    case = Case(Conv(3, 5, 5, 8, 8))
    case.gx[:] = 0
    case.gy *= np.float32(size)
    gx, gws = case.expected(magnitudes=False)
    gx_error, gw_errors = case.errors(isa)
    nothing = 1e-27  # below 1e-30 an element counts as 0
    assert np.all(np.abs(case.grad_input(isa) - gx * case.bits) <= gx_error + nothing)
    passes = np.abs(case.weights[0]) <= np.float32(BOUND)
    assert np.all(np.abs(case.grad_weight(isa)[0] - gws[0] * passes) <= gw_errors[0] + nothing)
