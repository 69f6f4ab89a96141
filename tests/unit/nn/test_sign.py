import copy
import pickle

import pytest
import torch

from ftbnn.errors import UserError
from ftbnn.nn import Sign, Window, sign, use_backend

ABOVE = torch.nextafter(torch.tensor(1.2), torch.tensor(2.0)).item()  # the next float after the default bound
EDGE = torch.tensor([-5.0, -ABOVE, -1.2, -0.5, -0.0, 0.0, 0.5, 1.2, ABOVE, 5.0])


@pytest.mark.parametrize(("zero_one", "low"), [(False, -1.0), (True, 0.0)])
def test_zero_and_negatives_take_the_low_code(zero_one, low):
    expected = torch.tensor([low] * 6 + [1.0] * 4)
    assert torch.equal(Sign(zero_one=zero_one)(EDGE), expected)


@pytest.mark.parametrize("zero_one", [False, True])
def test_gradient_passes_at_and_inside_the_bound_only(zero_one):
    x = EDGE.clone().requires_grad_()
    incoming = torch.arange(1.0, 11.0)
    Sign(zero_one=zero_one)(x).backward(incoming)
    inside = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1, 0, 0], dtype=torch.float32)
    assert torch.equal(x.grad, incoming * inside)


@pytest.mark.parametrize("backend", ["torch", "native", "plain"])
@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("zero_one", [False, True])
def test_a_shift_moves_the_threshold_in_every_backend(zero_one, learns, backend):
    x, shift = torch.rand(2, 5, 3, 3).requires_grad_(learns), torch.linspace(-0.9, 0.1, 5)
    with use_backend(backend):
        codes = sign(x, zero_one=zero_one, shift=shift)
    torch.testing.assert_close(codes, torch.where(x > -shift.view(-1, 1, 1), 1.0, 0.0 if zero_one else -1.0))


def test_bound_is_a_parameter():
    x = torch.tensor([-0.6, -0.5, 0.4, 0.6], requires_grad=True)
    Sign(bound=0.5)(x).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan")])
def test_bound_must_be_positive(bound):
    with pytest.raises(UserError, match="bound"):
        Sign(bound=bound)


def test_tanh_and_identity_modes_are_plain_functions():
    x = torch.randn(8, dtype=torch.float64, requires_grad=True)
    layer = Sign(mode="tanh")
    assert torch.equal(layer(x), torch.tanh(x))
    assert torch.autograd.gradcheck(layer, x)
    assert Sign(mode="identity")(x) is x


def test_backward_keeps_one_byte_per_element():
    saved = []
    x = torch.randn(1000, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        Sign()(x)
    assert sum(t.numel() * t.element_size() for t in saved) == 1000


def test_worked_example_of_the_appendix():
    """w = [T F T F T], x = [-3 -2 1.5 2 -1.2]: popcount(x xnor w) = 2; after a ReLU the AND form gives 0."""
    w = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    x = torch.tensor([-3.0, -2.0, 1.5, 2.0, -1.2])
    plus_minus = sign(x)
    assert int((plus_minus == w).sum()) == 2
    assert float(plus_minus @ w) == 2 * 2 - 5  # the dot product of +-1 codes is 2 popcount(xnor) - n
    zero_one = sign(torch.relu(x), zero_one=True)
    assert zero_one.tolist() == [0, 0, 1, 1, 0]
    assert float(zero_one @ w) == 0
    ones = zero_one.bool()
    positive = w > 0
    assert 2 * int((ones & positive).sum()) - int(ones.sum()) == 0  # the AND form at the price of one


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_keeps_dtype_and_channels_last(dtype):
    x = torch.randn(2, 4, 3, 5, dtype=dtype).to(memory_format=torch.channels_last).requires_grad_()
    y = Sign()(x)
    assert y.dtype == dtype
    assert y.is_contiguous(memory_format=torch.channels_last)
    y.sum().backward()
    assert x.grad.dtype == dtype


def test_compiles_in_one_graph():
    layer = Sign()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    x = torch.randn(4, 3, requires_grad=True)
    y = torch.randn(4, 3)
    eager = torch.autograd.grad((layer(x) * y).sum(), x)[0]
    traced = torch.autograd.grad((compiled(x) * y).sum(), x)[0]
    assert torch.equal(eager, traced)


def test_deepcopy_and_pickle_keep_the_settings():
    layer = Sign(zero_one=True, bound=0.7, mode="tanh")
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert (twin.zero_one, twin.rule, twin.mode) == (True, Window(0.7), "tanh")


def test_a_parameter_cannot_be_called_as_a_question_is():
    class Shifted(Sign):
        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.zeros(4))

    with pytest.raises(UserError, match=r"Shifted.shift is a question that the layer answers: name the parameter"):
        Shifted()
