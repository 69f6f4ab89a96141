"""Native average pools against PyTorch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ftbnn import _native
from ftbnn.nn import use_backend
from ftbnn.nn.native import average
from ftbnn.nn.native.pool import window_of

TOLERANCE = 1e-5


@pytest.fixture(params=_native.capabilities()["isas"])
def isa(request, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", request.param)
    return request.param


@st.composite
def pools(draw):
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    return nn.AvgPool2d(
        kernel,
        (draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        tuple(draw(st.integers(0, k // 2)) for k in kernel),
        ceil_mode=draw(st.booleans()),
        count_include_pad=draw(st.booleans()),
    )


def natively(x, pool):
    with use_backend("native"):
        return average(x, pool)


def both(pool, x):
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, wanted = natively(ours, pool), pool(theirs)
    torch.testing.assert_close(out, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    grad = torch.randn(out.shape)
    out.backward(grad)
    wanted.backward(grad)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=TOLERANCE, atol=TOLERANCE)
    return out


@settings(max_examples=60, deadline=None)
@given(
    pool=pools(),
    n=st.integers(1, 3),
    channels=st.integers(1, 40),
    size=st.tuples(st.integers(4, 12), st.integers(4, 12)),
    last=st.booleans(),
)
def check_average(pool, n, channels, size, last):
    torch.manual_seed(n)
    x = torch.randn(n, channels, *size)
    x = x.to(memory_format=torch.channels_last) if last else x
    assert window_of(tuple(x.shape), pool) is not None
    out = both(pool, x)
    assert type(out.grad_fn).__name__ == "_AverageBackward"


def test_averages_equal_pytorch(isa):  # noqa: ARG001
    check_average()


def test_other_pools_stay_with_pytorch():
    x = torch.randn(1, 2, 4, 4, requires_grad=True)
    for pool in (nn.AvgPool2d(2, divisor_override=3), nn.AdaptiveAvgPool2d(1)):
        assert torch.equal(natively(x, pool), pool(x))
    with pytest.raises(RuntimeError, match="pad"):
        natively(x, nn.AvgPool2d(2, 2, padding=2))
