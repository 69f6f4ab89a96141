"""The forward convolution of training against sums of integers, for every kernel that can run here, tiles among them.

Without AMX its kernels run all the same: on emulated tiles, and as compiled, every tile instruction decoded.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_conv_grad import Conv, by_group, by_tap, convs, packed, random_weights, with_border

from ftbnn import _native_tests as native

native.trap_tiles()
ISAS = native.kernels("bconv")

every_isa = pytest.mark.parametrize("isa", ISAS)
thorough = settings(max_examples=40, deadline=None)


def forward(isa: str, conv: Conv, bits: np.ndarray, weights: list[np.ndarray]) -> list[np.ndarray]:
    """y and its sums and sums of squares per channel."""
    codes = packed(bits)
    if spare := -conv.inputs % 64:
        codes[..., -1] &= np.uint64((1 << (64 - spare)) - 1)  # packed codes end in zeros
    results = [np.full((conv.n, *conv.out_size, conv.outputs), 12345, np.int16)]
    results += [np.full(conv.outputs, 12345, np.int64) for _ in range(2)]
    addresses = [weight.ctypes.data for weight in weights] + [0] * (2 - len(weights))
    native.binary_conv(
        isa, conv.sizes, conv.zero_one, codes.ctypes.data, *addresses, *(r.ctypes.data for r in results), conv.threads
    )
    return results


def check(isa: str, conv: Conv, bits: np.ndarray | None = None, weights: list[np.ndarray] | None = None) -> None:
    lot = np.random.default_rng(conv.seed)
    if bits is None or weights is None:
        bits = lot.integers(0, 2, (conv.n, conv.h, conv.w, conv.inputs))
        weights = random_weights(lot, conv)
    x = with_border(conv, bits if conv.zero_one else 2 * bits - 1)
    wanted = np.zeros((conv.n, *conv.out_size, conv.outputs), np.int64)
    for ins, outs, sign in by_group(conv, [np.where(weight > 0, 1, -1) for weight in weights]):
        for ky, kx, seen in by_tap(conv, x):
            wanted[..., outs] += seen[..., ins] @ sign[:, :, ky, kx].T
    ours, sums, squares = forward(isa, conv, bits, weights)
    np.testing.assert_array_equal(ours, wanted)
    np.testing.assert_array_equal(sums, wanted.sum((0, 1, 2)))
    np.testing.assert_array_equal(squares, (wanted**2).sum((0, 1, 2)))


@st.composite
def stacks(draw) -> Conv:
    """Many small images: a task takes several at a time."""
    conv = draw(convs())
    grown = replace(conv, n=draw(st.integers(1, 40)), h=max(conv.h, 4), w=max(conv.w, 4))
    return replace(grown, inputs=draw(st.integers(conv.groups, 150)))


@every_isa
@thorough
@given(stacks())
@example(Conv(64, 4, 4, 96, 70, threads=2))
@example(Conv(13, 4, 4, 130, 65, groups=4, zero_one=True))
@example(Conv(9, 9, 8, 20, 33, stride=(2, 2)))  # an odd row is left out
@example(Conv(9, 7, 7, 5, 40, kernel=(1, 1), padding=(0, 0), stride=(2, 2)))
@example(Conv(9, 3, 30, 5, 40, kernel=(3, 3), padding=(0, 1), stride=(9, 1)))  # one row, a stride past the end
@example(Conv(8, 2, 5, 3, 4, kernel=(3, 3), padding=(3, 2)))  # windows in nothing but border
@example(Conv(2, 40, 41, 9, 101))  # floats of one image in two bands
@example(Conv(30, 5, 4, 140, 160, groups=2, zero_one=True))  # tiles take what is past 64 channels by runs
@example(Conv(30, 9, 8, 70, 60, groups=2, stride=(2, 2)))
@example(Conv(3, 16, 15, 145, 5, kernel=(15, 15), padding=(7, 7)))
def test_the_integers_are_exact(isa, conv):
    check(isa, conv)


@every_isa
@pytest.mark.parametrize("zero_one", [False, True])
def test_the_largest_sums(isa, zero_one):
    conv = Conv(2, 4, 4, 3640, 3, zero_one=zero_one)  # 9 x 3640 = 32760
    bits = np.ones((2, 4, 4, 3640), np.int64)
    check(isa, conv, bits, [np.stack([np.full((3640, 3, 3), sign, np.float32) for sign in (1, -1, 1)])])


@every_isa
def test_the_number_of_threads_and_so_of_images_together_changes_nothing(isa):
    conv = Conv(33, 5, 4, 70, 40)
    lot = np.random.default_rng(0)
    bits, weights = lot.integers(0, 2, (33, 5, 4, 70)), [lot.standard_normal((40, 70, 3, 3)).astype(np.float32)]
    results = [forward(isa, replace(conv, threads=threads), bits, weights) for threads in (1, 2, 3, 40)]
    for other in results[1:]:
        assert all(np.array_equal(*pair) for pair in zip(results[0], other, strict=True))
