"""Native real convolutions against PyTorch in double precision."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ftbnn import _native
from ftbnn.nn import use_backend
from ftbnn.nn.native import convolve
from ftbnn.nn.rounded import RoundedConv2d

TOLERANCE = 1e-5  # float32, relative to the largest number


@pytest.fixture(params=_native.capabilities()["isas"])
def isa(request, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", request.param)
    return request.param


@st.composite
def convolutions(draw):
    """A convolution, and images for it."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    kernel = (draw(st.integers(1, 7)), draw(st.integers(1, 7)))
    strides = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    padding = (draw(st.integers(0, 4)), draw(st.integers(0, 4)))
    conv = nn.Conv2d(draw(st.integers(1, 4)), draw(st.integers(1, 70)), kernel, strides, padding, bias=False)
    if draw(st.booleans()):
        conv = conv.to(memory_format=torch.channels_last)
    size = draw(st.integers(7, 20)), draw(st.sampled_from([7, 12, 90, 1500]))
    return conv, torch.randn(draw(st.integers(1, 4)), conv.in_channels, *size)


def natively(x, conv):
    with use_backend("native"):
        return convolve(x, conv)


def assert_near(ours, wanted):
    torch.testing.assert_close(
        ours.double(), wanted, rtol=0, atol=TOLERANCE * max(1.0, wanted.detach().abs().max().item())
    )


@settings(max_examples=60, deadline=None)
@given(convolutions())
def check_convolution(case):
    conv, x = case
    out = natively(x, conv)
    assert type(out.grad_fn).__name__ == "_ConvolutionBackward"
    wide_weight = conv.weight.detach().double().requires_grad_()
    wanted = F.conv2d(x.double(), wide_weight, None, conv.stride, conv.padding)
    assert_near(out, wanted)
    grad = torch.randn(out.shape)
    out.backward(grad)
    wanted.backward(grad.double())
    assert conv.weight.grad.stride() == conv.weight.stride()
    assert_near(conv.weight.grad, wide_weight.grad)


def test_convolutions_equal_pytorch(isa):  # noqa: ARG001
    check_convolution()


def test_the_number_of_threads_changes_nothing():
    torch.manual_seed(0)
    conv, x = nn.Conv2d(3, 33, 7, 2, 3, bias=False), torch.randn(5, 3, 40, 40)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            out = natively(x, conv)
            found.append([out, *torch.autograd.grad(out.square().sum(), [conv.weight])])
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_rounded_weights_learn_straight_through():
    torch.manual_seed(0)
    conv, x = RoundedConv2d(3, 5, 3, bias=False, bits=8), torch.randn(2, 3, 9, 9)
    out = natively(x, conv)
    torch.testing.assert_close(out, F.conv2d(x, conv.multiplied()), rtol=TOLERANCE, atol=TOLERANCE)
    (ours,) = torch.autograd.grad(out.square().sum(), [conv.weight])
    (theirs,) = torch.autograd.grad(conv(x).square().sum(), [conv.weight])
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(4, 4, 3, padding=1),
        nn.Conv2d(4, 4, 1, groups=2, bias=False),
        nn.Conv2d(4, 4, 3, padding="same", bias=False),
        nn.Conv2d(4, 4, 3, padding=1, bias=False, padding_mode="circular"),
        nn.Conv2d(4, 4, 3, dilation=2, bias=False),
    ],
)
def test_others_stay_with_pytorch(conv):
    x = torch.randn(2, 4, 8, 8)
    assert torch.equal(natively(x, conv), conv(x))


def test_images_that_want_a_gradient_and_maps_stay_with_pytorch():
    for channels, wants in ((4, True), (64, False)):
        conv, x = nn.Conv2d(channels, 4, 3, bias=False), torch.randn(2, channels, 8, 8, requires_grad=wants)
        assert "Conv" in type(natively(x, conv).grad_fn).__name__ != "_ConvolutionBackward"


def test_what_is_watched_is_called():
    conv, seen = nn.Conv2d(4, 4, 1, bias=False), []
    conv.register_forward_hook(lambda *_: seen.append(1))
    natively(torch.randn(1, 4, 4, 4), conv)
    assert seen == [1]


def test_sizes_that_do_not_fit_are_refused():
    sizes = {"n": 1, "h": 4, "w": 4, "inputs": 2, "outputs": 2, "stride": (1, 1), "weight_is_last": False}
    with pytest.raises(ValueError, match="do not fit"):
        _native.training.RealConv(kernel=(7, 7), padding=(1, 1), **sizes)
    conv = _native.training.RealConv(kernel=(3, 3), padding=(1, 1), **sizes)
    with pytest.raises(ValueError, match="x has 3 elements, not 32"):
        conv.forward(1, {"x": (8, 3)})
