"""Native BatchNorm, with a shortcut, a non-linearity or a max-pool behind it, against PyTorch and double precision."""

import copy
from unittest.mock import patch

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from ftbnn import _native
from ftbnn.nn import FPReLU, use_backend
from ftbnn.nn.native import bend, normalise
from ftbnn.nn.native.norm import NORM

OUTPUT_TOLERANCE = 1e-5  # float32, relative to the largest output
GRADIENT_TOLERANCE = 1e-4
ISAS = _native.capabilities()["isas"]


@pytest.fixture(params=ISAS)
def isa(request, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", request.param)
    return request.param


@st.composite
def pools(draw):
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    return nn.MaxPool2d(
        kernel,
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        tuple(draw(st.integers(0, k // 2)) for k in kernel),
        ceil_mode=draw(st.booleans()),
    )


@st.composite
def norms(draw):
    """A norm with random parameters and statistics, what follows it, its input, and a shortcut or None."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    channels = draw(st.integers(1, draw(st.sampled_from([8, 40, 70]))))
    norm = nn.BatchNorm2d(
        channels,
        affine=draw(st.booleans()),
        momentum=draw(st.sampled_from([None, 0.1])),
        track_running_stats=draw(st.booleans()),
    )
    plain = st.sampled_from([nn.Identity(), nn.ReLU(), nn.PReLU(channels, init=0.3), FPReLU(channels)])
    then = draw(st.one_of(plain, pools()))
    for parameter in [*norm.parameters(), *then.parameters()]:
        nn.init.normal_(parameter)
    if norm.track_running_stats:
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    shape = (draw(st.integers(1, 4)), channels, draw(st.integers(4, 19)), draw(st.integers(4, 19)))
    x = draw(st.sampled_from([1.0, 30.0])) * torch.randn(shape) + draw(st.sampled_from([0.0, 5.0]))
    has_shortcut = not isinstance(then, nn.MaxPool2d) and draw(st.booleans())
    shortcut = torch.randn(shape).requires_grad_() if has_shortcut else None
    return norm.train(draw(st.booleans())), then, x.requires_grad_(), shortcut


def natively(x, norm, then, *, shortcut=None):
    """By the native operator, and by nothing else."""
    with use_backend("native"), patch.object(NORM, "run", wraps=NORM.run) as seen:
        out = normalise(x, norm, then, shortcut=shortcut)
    assert seen.call_count == 1
    return out


def copy_of(x, dtype):
    return None if x is None else x.detach().clone().to(dtype).requires_grad_()


def plus(x, shortcut):
    return x if shortcut is None else x + shortcut


def assert_near(ours, wanted, tolerance, what):
    error = (ours.double() - wanted).abs().max().item() if wanted.numel() else 0.0
    assert error <= tolerance * max([1e-2, *wanted.abs().flatten().tolist()]), f"{what}: {error}"


@settings(max_examples=50, deadline=None)
@given(made=norms())
def check_norm(made):
    norm, then, x, shortcut = made
    norm64, then64 = copy.deepcopy(norm).double(), copy.deepcopy(then).double()
    norm32, then32 = copy.deepcopy(norm), copy.deepcopy(then)
    x64, x32 = copy_of(x, torch.float64), copy_of(x, torch.float32)
    shortcut64, shortcut32 = copy_of(shortcut, torch.float64), copy_of(shortcut, torch.float32)
    z = plus(copy.deepcopy(norm64)(x64), shortcut64)
    assume((z.abs() > 1e-4).all())  # at 0 a float may take the other slope
    out = natively(x, norm, then, shortcut=shortcut)
    wanted, theirs = then64(plus(norm64(x64), shortcut64)), then32(plus(norm32(x32), shortcut32))
    assert_near(out, wanted, OUTPUT_TOLERANCE, "out")
    assert_near(out, theirs.double(), 2 * OUTPUT_TOLERANCE, "out beside float32")
    for (name, own), other in zip(norm.named_buffers(), norm64.buffers(), strict=True):
        assert_near(own, other.double(), OUTPUT_TOLERANCE, name)
    grad = torch.randn(out.shape)
    out.backward(grad)
    wanted.backward(grad.double())
    theirs.backward(grad)
    if isinstance(then, nn.MaxPool2d) and (x32.grad.double() - x64.grad).norm() > 1e-3 * x64.grad.norm():
        return  # float32 made two taps equal
    assert_near(x.grad, x64.grad, GRADIENT_TOLERANCE, "x")
    if shortcut is not None:
        assert_near(shortcut.grad, shortcut64.grad, GRADIENT_TOLERANCE, "shortcut")
    for ours, others in ((norm, norm64), (then, then64)):
        for (name, own), other in zip(ours.named_parameters(), others.parameters(), strict=True):
            assert_near(own.grad, other.grad, GRADIENT_TOLERANCE, name)


def test_norms_equal_double_precision(isa):  # noqa: ARG001
    check_norm()


@pytest.mark.parametrize("make", [lambda: nn.PReLU(40, init=0.3), lambda: FPReLU(40, left=-0.2, right=1.5)])
def test_a_non_linearity_alone_is_that_of_pytorch(isa, make):  # noqa: ARG001
    torch.manual_seed(0)
    act, x = make(), torch.randn(3, 40, 9, 7)
    found = []
    for backend in ("native", "torch"):
        own = x.clone().requires_grad_()
        act.zero_grad()
        with use_backend(backend), patch.object(NORM, "run", wraps=NORM.run) as seen:
            out = bend(own, act)
        assert seen.call_count == (backend == "native")
        out.backward(torch.cos(x))
        found.append([out.detach(), own.grad, *(parameter.grad for parameter in act.parameters())])
    for ours, theirs in zip(*found, strict=True):
        assert_near(ours, theirs.double(), OUTPUT_TOLERANCE, "alone")


@pytest.mark.parametrize("act", [nn.ReLU(), nn.Tanh(), nn.PReLU(), nn.PReLU(40).requires_grad_(False)])
def test_what_learns_no_slopes_for_channels_stays_with_pytorch(act):
    x = torch.randn(2, 40, 3, 3)
    with use_backend("native"), patch.object(NORM, "run") as seen:
        assert torch.equal(bend(x, act), act(x))
    assert not seen.called


def arguments_of(x, norm, then, shortcut):
    """What the operator is called with."""
    run = patch.object(NORM, "run", side_effect=InterruptedError)
    with run as called, use_backend("native"), pytest.raises(InterruptedError):
        normalise(x, norm, then, shortcut=shortcut)
    tensors, told = called.call_args.args
    return [None if (tensor := tensors.get(name)) is None else tensor.detach() for name in NORM.inputs], told


@settings(max_examples=50, deadline=None)
@given(made=norms(), wants=st.lists(st.booleans(), min_size=len(NORM.learned), max_size=len(NORM.learned)))
def check_operator(made, wants):
    """Both registrations, whichever gradients are wanted."""
    norm, then, x, shortcut = made
    assume((plus(copy.deepcopy(norm)(x), shortcut).abs() > 1e-4).all())  # at 0 a float may take the other slope
    tensors, told = arguments_of(x, norm, then, shortcut)
    ours, wanted = (dict(zip(NORM.results, run(*tensors, *told), strict=True)) for run in (NORM._native, NORM._plain))
    for name in ("out", "new_mean", "new_var", "saved"):
        assert ours[name].shape == wanted[name].shape
        assert_near(ours[name], wanted[name].double(), 2 * OUTPUT_TOLERANCE, name)
    if not torch.equal(ours["taps"], wanted["taps"]):
        return  # float32 made two taps equal
    known = dict(zip(NORM.inputs, tensors, strict=True)) | wanted
    kept = [known[name] if name in NORM.keep(known, told) else None for name in NORM.kept]
    wants = [want and known[name] is not None for name, want in zip(NORM.learned, wants, strict=True)]
    grad = torch.randn(wanted["out"].shape)
    found = [run(grad, *kept, wants, *told) for run in (NORM._native_backward, NORM._plain_backward)]
    for name, want, mine, other in zip(NORM.learned, wants, *found, strict=True):
        assert mine.shape == other.shape, name
        if want:
            assert_near(mine, other.double(), 2 * GRADIENT_TOLERANCE, name)


def test_the_operators_two_registrations_agree(isa):  # noqa: ARG001
    check_operator()


@settings(max_examples=30, deadline=None)
@given(pool=pools(), seed=st.integers(0, 2**31), channels=st.sampled_from([1, 7, 16, 37]), odd=st.booleans())
def check_ties(pool, seed, channels, odd):
    """Few different numbers, infinities and NaNs among them: every gradient goes where PyTorch sends it."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.tensor([0.0, 1.0, 1.0, -2.0] + ([float("nan"), float("-inf"), float("inf")] if odd else []))
    x = values[torch.randint(0, len(values), (2, channels, 7, 9), generator=generator)]
    norm = nn.BatchNorm2d(channels, eps=0.0).eval()  # mean 0, variance 1: leaves the numbers alone
    norm.weight.requires_grad_(False)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, wanted = natively(ours, norm, pool), pool(norm(theirs))
    assert torch.equal(out.nan_to_num(7), wanted.nan_to_num(7))
    grad = torch.randint(1, 100, out.shape, generator=generator).float()
    out.backward(grad)
    wanted.backward(grad)
    assert torch.equal(ours.grad, theirs.grad)


def test_equal_maxima_and_nans_go_as_in_pytorch(isa):  # noqa: ARG001
    check_ties()


@pytest.mark.parametrize("then", [nn.MaxPool2d(3, 2, 1), FPReLU(20)])
def test_the_number_of_threads_and_the_isa_change_nothing(then, monkeypatch):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(20)
    x, results = torch.randn(5, 20, 47, 33), []
    before = torch.get_num_threads()
    try:
        for isa in ISAS:
            monkeypatch.setenv("FTBNN_ISA", isa)
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                norm.zero_grad()
                then.zero_grad()
                inputs = x.clone().requires_grad_()
                out = natively(inputs, norm, then)
                out.square().sum().backward()
                results.append([out, inputs.grad, *(p.grad.clone() for p in [*norm.parameters(), *then.parameters()])])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_a_large_mean_does_not_drown_the_variance():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3)
    x = torch.randn(4, 3, 40, 40) + 1000
    wanted = copy.deepcopy(norm).double()(x.double())
    assert_near(natively(x, norm, None), wanted, 1e-4, "out")
