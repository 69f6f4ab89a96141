import copy
import pickle

import torch

from ftbnn.nn import FPReLU


def random_slopes(channels, dtype=torch.float32):
    layer = FPReLU(channels).to(dtype)
    layer.left.data.uniform_(-2, 2)
    layer.right.data.uniform_(-2, 2)
    return layer


def test_starts_as_the_identity():
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(FPReLU(3)(x), x)


def test_formula():
    layer = FPReLU(2)
    layer.left.data = torch.tensor([0.5, 2.0])
    layer.right.data = torch.tensor([3.0, -1.0])
    x = torch.tensor([[[-2.0, 0.0, 2.0], [-2.0, 0.0, 2.0]]])
    assert layer(x).tolist() == [[[-1.0, 0.0, 6.0], [-4.0, 0.0, -2.0]]]


def test_gradients_of_input_and_both_slopes():
    layer = random_slopes(3, torch.float64)
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    x = (x + 0.1 * x.sign()).requires_grad_()  # away from the kink, where no derivative exists
    apply = lambda x, left, right: torch.func.functional_call(layer, {"left": left, "right": right}, (x,))  # noqa: E731
    assert torch.autograd.gradcheck(apply, (x, layer.left, layer.right))


def test_zero_takes_the_left_slope():
    layer = FPReLU(1)
    layer.left.data.fill_(5.0)
    x = torch.zeros(1, 1, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.item() == 5.0


def test_backward_keeps_only_its_input():
    saved = []
    x = torch.randn(2, 4, 8, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        FPReLU(4)(x)
    assert sum(t.numel() for t in saved) == x.numel() + 8


def test_works_for_any_number_of_dimensions_and_channels_last():
    layer = random_slopes(4)
    image = torch.randn(2, 4, 3, 3)
    flat = torch.randn(5, 4)
    expected = torch.where(flat > 0, flat * layer.right, flat * layer.left)
    torch.testing.assert_close(layer(flat), expected)
    last = layer(image.to(memory_format=torch.channels_last))
    torch.testing.assert_close(last, layer(image))
    assert last.is_contiguous(memory_format=torch.channels_last)


def test_compile_autocast_deepcopy_pickle_state_dict():
    layer = random_slopes(4)
    x = torch.randn(2, 4, 3, 3, requires_grad=True)
    expected = layer(x)
    torch.testing.assert_close(torch.compile(layer, backend="aot_eager", fullgraph=True)(x), expected)
    other = FPReLU(4)
    other.load_state_dict(layer.state_dict())
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other):
        assert torch.equal(twin(x), expected)
    half = layer(x.bfloat16())
    assert half.dtype == torch.bfloat16
    half.float().sum().backward()
    assert layer.left.grad.dtype == torch.float32
