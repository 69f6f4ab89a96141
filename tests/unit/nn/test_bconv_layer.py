import copy
import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from arrays import dense_weight

from ftbnn.errors import UserError
from ftbnn.nn import BConv, MeanScaledSigns, Sign, Signs, use_backend


def test_weights_are_plus_or_minus_one_and_zero_is_minus_one():
    conv = BConv(1, 1, kernel_size=(1, 3), padding=0)
    conv.weight.data = torch.tensor([[[[0.3, 0.0, -2.0]]]])
    assert dense_weight(conv).flatten().tolist() == [1, -1, -1]
    assert conv(torch.tensor([[[[1.0, 10.0, 100.0]]]])).item() == 1 - 10 - 100


def test_padding_contributes_zero():
    conv = BConv(1, 1)
    conv.weight.data.fill_(1.0)
    assert conv(torch.ones(1, 1, 3, 3))[0, 0].tolist() == [[4, 6, 4], [6, 9, 6], [4, 6, 4]]


def test_weight_gradient_passes_at_and_inside_the_bound_only():
    conv = BConv(1, 6, kernel_size=1)
    conv.weight.data = torch.tensor([-1.3, -1.2, 0.0, 1.2, 1.3, 0.5]).reshape(6, 1, 1, 1)
    x = torch.full((1, 1, 2, 2), 3.0)
    conv(x).sum().backward()
    assert conv.weight.grad.flatten().tolist() == [0, 12, 12, 12, 0, 12]


def test_input_gradient_is_that_of_a_convolution_with_the_signs():
    conv = BConv(4, 6, stride=2, groups=2).double()
    x = torch.randn(2, 4, 5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(conv, (x,))


def test_real_mode_convolves_with_the_proxies():
    conv = BConv(4, 6, groups=2, signs=Signs(mode="real")).double()
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.equal(conv(x), F.conv2d(x, conv.weight, padding=1, groups=2))
    assert torch.autograd.gradcheck(lambda w: F.conv2d(x, conv.signs(w), groups=2), (conv.weight,))


def test_initialisation_is_xavier_normal_with_gain_two():
    conv = BConv(128, 256)
    expected = 2 * math.sqrt(2 / (9 * (128 + 256)))
    assert conv.weight.std().item() == pytest.approx(expected, rel=0.02)
    assert abs(conv.weight.mean().item()) < 0.02 * expected


def test_arguments_stand_where_those_of_pytorchs_convolution_do():
    given = (13, 29, (3, 5), 2, (1, 2), 2, 1, False)
    ours, theirs = BConv(*given), torch.nn.Conv2d(*given)
    for name in ("kernel_size", "stride", "padding", "dilation", "groups"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert BConv(13, 29, 3).weight.shape == (29, 13, 3, 3)


@pytest.mark.parametrize("padding", ["same", "valid", 1, (0, 2), None])
@pytest.mark.parametrize("dilation", [1, 2, (1, 3)])
@pytest.mark.parametrize("groups", [1, 3])
def test_padding_and_dilation_are_pytorchs(padding, dilation, groups):
    conv = BConv(4, 7, 3, padding=padding, dilation=dilation, groups=groups, input=Sign())
    x = torch.randn(2, 4, 9, 8)
    same = "same" if padding is None else padding  # what is not said keeps the size of the map
    expected = F.conv2d(conv.input(x), dense_weight(conv), padding=same, dilation=dilation)
    assert torch.equal(conv(x), expected)
    with use_backend("native"):
        assert torch.equal(conv(x), expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"padding": "some"}, '"same", "valid", or one or two whole numbers'),
        ({"padding": "same", "stride": 2}, 'padding="same" needs a stride of 1'),
        ({"padding": "same", "kernel_size": 2}, "an odd kernel"),
        ({"padding": -1}, "padding of a binary convolution is one or two whole numbers from 0 on, not -1"),
        ({"kernel_size": 0}, "kernel_size of a binary convolution is one or two whole numbers from 1 on, not 0"),
        ({"stride": (1, 2, 3)}, "stride of a binary convolution"),
        ({"dilation": 1.5}, "dilation of a binary convolution"),
        ({"bias": True}, "no bias"),
        ({"out_channels": 0}, "needs channels"),
    ],
)
def test_mistakes_are_one_line(settings, message):
    with pytest.raises(UserError, match=message) as caught:
        BConv(**{"in_channels": 4, "out_channels": 4} | settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("groups", [0, -1, 5])
def test_groups_must_fit_the_channels(groups):
    with pytest.raises(UserError, match="groups"):
        BConv(4, 8, groups=groups)


def test_uneven_groups_keep_no_spare_weights():
    conv = BConv(10, 11, groups=3)  # groups of 3, 3, 4 in and 3, 3, 5 out
    assert sum(p.numel() for p in conv.parameters()) == 9 * (3 * 3 + 3 * 3 + 4 * 5)
    assert list(conv.state_dict()) == ["weight", "tail"]
    assert list(BConv(9, 9, groups=3).state_dict()) == ["weight"]


@pytest.mark.parametrize("signs", [Signs, MeanScaledSigns])
def test_deepcopy_pickle_and_state_dict(signs):
    conv = BConv(10, 11, groups=3, signs=signs())
    x = torch.randn(1, 10, 4, 4)
    restored = BConv(10, 11, groups=3, signs=signs())
    restored.load_state_dict(conv.state_dict())
    for twin in (copy.deepcopy(conv), pickle.loads(pickle.dumps(conv)), restored):
        assert torch.equal(twin(x), conv(x))


def test_scaled_convolution_multiplies_each_output_channel():
    scaled, plain = BConv(4, 6, signs=MeanScaledSigns()), BConv(4, 6)
    plain.load_state_dict(scaled.state_dict())
    x = torch.randn(2, 4, 5, 5).sign()
    scale = scaled.weight.abs().mean(dim=(1, 2, 3)).view(-1, 1, 1)
    torch.testing.assert_close(scaled(x), plain(x) * scale)


def test_scale_is_a_constant_to_the_gradient():
    conv = BConv(1, 1, kernel_size=1, signs=MeanScaledSigns())
    conv.weight.data.fill_(0.5)
    conv(torch.full((1, 1, 1, 1), 3.0)).backward()
    assert conv.weight.grad.item() == 3.0 * 0.5


@pytest.mark.parametrize("groups", [1, 3])
def test_runs_under_autocast_compile_and_channels_last(groups):
    conv = BConv(8, 8, groups=groups)
    x = torch.randn(2, 8, 6, 6).sign().requires_grad_()
    expected = conv(x)
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), expected)
    last = conv(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(last, expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = conv(x)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), expected)  # up to 256 an integer is exact in bf16
    half.float().sum().backward()
    assert conv.weight.grad.dtype == torch.float32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input": torch.nn.Tanh()}, "input of a binary convolution is a Sign or a class derived from it, not a Tanh"),
        ({"input": Sign}, "input of a binary convolution is a Sign .*, not a type"),
        ({"signs": Sign()}, "signs of a binary convolution is a Signs .*, not a Sign"),
    ],
)
def test_sides_that_are_none_are_refused_at_once(settings, message):
    with pytest.raises(UserError, match=message):
        BConv(4, 4, **settings)
