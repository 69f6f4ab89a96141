"""Native stems, a real convolution and its BatchNorm, against PyTorch in double precision."""

import copy
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from ftbnn import _native
from ftbnn.nn import FPReLU, use_backend
from ftbnn.nn.native import stem
from ftbnn.nn.native.core import arrays, has_channels_last
from ftbnn.nn.native.stem import STEM
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


def nothing(channels):
    """A norm that leaves its numbers alone."""
    return nn.BatchNorm2d(channels, eps=0.0, affine=False).eval()


def natively(x, conv, norm=None, then=None):
    with use_backend("native"):
        return stem(x, conv, norm or nothing(conv.out_channels), then)


def assert_near(ours, wanted, tolerance=TOLERANCE):
    largest = max([1.0, *wanted.detach().abs().flatten().tolist()])
    torch.testing.assert_close(ours.double(), wanted, rtol=0, atol=tolerance * largest)


@settings(max_examples=60, deadline=None)
@given(convolutions())
def check_convolution(case):
    conv, x = case
    out = natively(x, conv)
    assert type(out.grad_fn).__name__ == "stemBackward"
    wide_weight = conv.weight.detach().double().requires_grad_()
    wanted = F.conv2d(x.double(), wide_weight, None, conv.stride, conv.padding)
    assert_near(out, wanted)
    grad = torch.randn(out.shape)
    out.backward(grad)
    wanted.backward(grad.double())
    assert has_channels_last(conv.weight.grad) == has_channels_last(conv.weight)
    assert_near(conv.weight.grad, wide_weight.grad)


def test_convolutions_equal_pytorch(isa):  # noqa: ARG001
    check_convolution()


@st.composite
def stems(draw):
    conv, x = draw(convolutions())
    norm = nn.BatchNorm2d(conv.out_channels, affine=draw(st.booleans())).train(draw(st.booleans()))
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    slopes = FPReLU(conv.out_channels)
    for parameter in slopes.parameters():
        nn.init.normal_(parameter)
    return conv, norm, draw(st.sampled_from([None, slopes, nn.MaxPool2d(3, 2, 1), nn.Tanh()])), x


def doubled(module):
    return None if module is None else copy.deepcopy(module).double()


@settings(max_examples=60, deadline=None)
@given(stems())
def check_stem(case):
    conv, norm, then, x = case
    conv64, norm64, then64 = (doubled(module) for module in (conv, norm, then))
    before = copy.deepcopy(norm64)(conv64(x.double()))
    assume(before.shape[0] * before.shape[2] * before.shape[3] > 8)  # of few numbers a variance is next to none
    assume(not isinstance(then, FPReLU) or (before.abs() > 1e-4).all())  # at 0 a float may take the other slope
    z = norm64(conv64(x.double()))
    wanted = z if then64 is None else then64(z)
    with patch.object(STEM, "run", wraps=STEM.run) as seen:
        out = natively(x, conv, norm, then)
    assert seen.call_count == 1
    assert_near(out, wanted, 1e-4)
    for ours, theirs in zip(norm.buffers(), norm64.buffers(), strict=True):
        assert_near(ours, theirs.double())
    grad = torch.randn(out.shape)
    out.backward(grad)
    wanted.backward(grad.double())
    if isinstance(then, nn.MaxPool2d) and _has_ties(z):
        return
    for ours, theirs in ((conv, conv64), (norm, norm64), (then, then64)):
        for mine, other in zip(_gradients(ours), _gradients(theirs), strict=True):
            assert_near(mine, other, 1e-3)


def _has_ties(z):
    """Whether two numbers of a channel are so near each other that floats may take one for the other."""
    steps = z.detach().transpose(0, 1).flatten(1).sort().values.diff()
    return bool((steps < 1e-5).any())


def _gradients(module):
    return [] if module is None else [parameter.grad for parameter in module.parameters()]


def test_stems_equal_pytorch(isa):  # noqa: ARG001
    check_stem()


@settings(max_examples=30, deadline=None)
@given(stems())
def check_operator(case):
    """The operator that a compiler sees is the one that runs."""
    conv, norm, then, x = case
    run = patch.object(STEM, "run", side_effect=InterruptedError)
    with run as called, pytest.raises(InterruptedError):
        natively(x, conv, norm, then)
    tensors, told = called.call_args.args
    given = [None if tensors.get(name) is None else tensors[name].detach() for name in STEM.inputs]
    ours, plain = (dict(zip(STEM.results, run(*given, *told), strict=True)) for run in (STEM._native, STEM._plain))
    for name in ("out", "new_mean", "new_var", "saved", "x"):
        assert ours[name].shape == plain[name].shape
        assert_near(ours[name], plain[name].double(), 1e-3)
    known = dict(zip(STEM.inputs, given, strict=True)) | plain
    kept = [known[name] if name in STEM.keep(known, told) else None for name in STEM.kept]
    wants = [known[name] is not None for name in STEM.learned]
    grad = torch.randn(plain["out"].shape)
    found = [run(grad, *kept, wants, *told) for run in (STEM._native_backward, STEM._plain_backward)]
    for want, mine, other in zip(wants, *found, strict=True):
        assert mine.shape == other.shape
        if want:
            assert_near(mine, other.double(), 1e-3)


def test_the_operators_two_registrations_agree():
    check_operator()


def test_the_number_of_threads_changes_nothing():
    torch.manual_seed(0)
    conv, x = nn.Conv2d(3, 33, 7, 2, 3, bias=False), torch.randn(5, 3, 40, 40)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            out = natively(x, conv, nn.BatchNorm2d(33), nn.MaxPool2d(3, 2, 1))
            found.append([out, *torch.autograd.grad(out.pow(3).sum(), [conv.weight])])
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
        assert type(natively(x, conv).grad_fn).__name__ != "stemBackward"


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
        conv.forward(1, arrays({"x": torch.empty(3)}))
