"""Native stairs against PyTorch, and every input of several levels that is made of them."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ftbnn import _native
from ftbnn.nn import METHODS, Levels, Shape, use_backend
from ftbnn.nn.methods.abcnet import InputBases
from ftbnn.nn.native.stairs import STAIRS, Settings

SUM_TOLERANCE = 1e-5  # of sums of gradients, relative to the sum of their magnitudes: single precision within a run
HEIGHT_TOLERANCE = 1e-6  # steps are added up in another order
QUANTISED = [
    name
    for name, method in METHODS.items()
    if isinstance(getattr(method.convolution(Shape(8, 8)), "input", None), Levels | InputBases)
]


@pytest.fixture(params=_native.capabilities()["isas"])
def isa(request, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", request.param)
    return request.param


@st.composite
def calls(draw):
    """Stairs of any edges, equal ones among them, and what climbs them: numbers on edges, infinite ones and NaN too."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    count = draw(st.integers(1, 40))
    edges = (4 * torch.randn(count)).round(decimals=draw(st.integers(0, 3))).sort().values
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 40)), draw(st.integers(1, 12)), draw(st.integers(1, 12)))
    x = torch.randn(shape)
    special = torch.cat([edges, torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0])])
    chosen = torch.rand(shape) < 0.2
    x[chosen] = special[torch.randint(len(special), (int(chosen.sum()),))]
    if draw(st.booleans()):
        x = x.contiguous(memory_format=torch.channels_last)
    return {"x": x, "edges": edges, "heights": torch.randn(count + 1), "slopes": torch.randn(count + 1)}


@settings(max_examples=60, deadline=None)
@given(tensors=calls(), threads=st.integers(1, 2), wants_heights=st.booleans())
def check_stairs(tensors, threads, wants_heights):
    torch.set_num_threads(threads)
    x, heights = tensors["x"].clone().requires_grad_(), tensors["heights"].clone().requires_grad_(wants_heights)
    with use_backend("native"):
        out = STAIRS.run(tensors | {"x": x, "heights": heights}, Settings())["out"]
    wanted = STAIRS.plain(tensors, Settings())
    assert torch.equal(out, wanted["out"])
    grad = torch.randn(out.shape)
    out.backward(grad)
    given = {"grad": grad, "slopes": tensors["slopes"], "steps": wanted["steps"]}
    gradients = STAIRS.plain_backward(given, Settings(), {"x", "heights"})
    assert torch.equal(x.grad, gradients["x"])
    if wants_heights:
        bound = SUM_TOLERANCE * float(grad.abs().sum())
        torch.testing.assert_close(heights.grad, gradients["heights"], rtol=0, atol=bound)
    torch.set_num_threads(1)


def test_stairs_equal_their_plain_form(isa):  # noqa: ARG001
    check_stairs()


def test_every_row_of_several_levels_is_here():
    assert {"hwgq", "lq-net", "binaryduo", "abc"} <= set(QUANTISED)


@pytest.mark.parametrize("name", QUANTISED)
def test_inputs_of_several_levels_learn_as_in_pytorch(name):
    torch.manual_seed(0)
    quantise = METHODS[name].convolution(Shape(8, 8)).input
    start = {key: value.clone() for key, value in quantise.state_dict().items()}
    x = torch.randn(4, 8, 9, 9)
    grad = torch.randn(x.shape)
    found = {}
    for backend in ("torch", "native"):
        quantise.load_state_dict(start)
        quantise.zero_grad()
        own = x.clone().requires_grad_()
        with use_backend(backend), patch.object(STAIRS, "run", wraps=STAIRS.run) as seen:
            out = quantise(own)
        assert seen.call_count == (backend == "native")
        out.backward(grad)
        found[backend] = [out.detach(), own.grad, *(p.grad for p in quantise.parameters()), *quantise.buffers()]
    scale = float(grad.abs().sum())
    for native, plain in zip(found["native"][2:], found["torch"][2:], strict=True):
        torch.testing.assert_close(native, plain, rtol=0, atol=SUM_TOLERANCE * scale)
    for native, plain in zip(found["native"][:2], found["torch"][:2], strict=True):
        torch.testing.assert_close(native, plain, rtol=HEIGHT_TOLERANCE, atol=HEIGHT_TOLERANCE)


def test_more_edges_than_a_byte_counts_are_refused():
    with pytest.raises(ValueError, match="sizes of stairs"):
        _native.training.Stairs(size=4, edges=256)
    with pytest.raises(ValueError, match="edges has 2 elements, not 3"):
        _native.training.Stairs(size=4, edges=3).forward(1, {"edges": (0, 2), "heights": (0, 4)})


@pytest.mark.parametrize("name", ["hwgq", "binaryduo", "abc"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_numbers_of_another_type_stay_with_pytorch(name, dtype):
    quantise = METHODS[name].convolution(Shape(8, 8)).input.to(dtype)
    x = torch.randn(2, 8, 5, 5, requires_grad=True)
    with use_backend("native"):
        native = quantise(x)
    assert torch.equal(native, quantise(x))


@pytest.mark.parametrize(("levels", "is_native"), [(253, True), (254, False), (300, False)])
def test_more_levels_than_the_core_counts_stay_with_pytorch(levels, is_native):
    quantise = Levels(torch.linspace(0.01, 1, levels).tolist(), [1 / levels] * levels, low=0.0, high=1.0)
    x = torch.rand(2, 3, 5, 5, requires_grad=True)
    with use_backend("native"), patch.object(STAIRS, "run", wraps=STAIRS.run) as seen:
        native = quantise(x)
    assert seen.called == is_native
    torch.testing.assert_close(native, quantise(x), rtol=1e-5, atol=0)


def test_levels_do_not_learn_in_either_backend():
    quantise = METHODS["hwgq"].convolution(Shape(8, 8)).input
    quantise.steps = torch.nn.Parameter(quantise._buffers.pop("steps"))
    for backend in ("torch", "native"):
        with use_backend(backend):
            quantise(torch.randn(2, 8, 5, 5, requires_grad=True)).sum().backward()
        assert quantise.steps.grad is None
