"""Rounded convolutions: the function, its gradient, what they answer, and networks that begin with one."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ftbnn.budget import count, summary
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import RoundedConv2d, use_backend
from ftbnn.nn.layer import freeze
from ftbnn.nn.rounded import BITS, rounded, whole_numbers

every_size = pytest.mark.parametrize("bits", BITS)
NETWORKS = ("ftbnn18", "bireal18", "resnet18", "ftbnn-d18-g2-v4")


@every_size
def test_weights_are_the_nearest_multiples_of_the_channels_unit(bits):
    weight = torch.randn(7, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    weight[2] = 0
    largest = 2 ** (bits - 1) - 1
    found, (integers, unit) = rounded(weight, bits), whole_numbers(weight, bits)
    assert torch.equal(found, integers * unit.view(-1, 1, 1, 1))
    assert torch.equal(integers, integers.round())
    assert torch.equal(integers.flatten(1).abs().amax(1), torch.tensor([largest, largest, 0, *[largest] * 4]).float())
    assert torch.equal(unit[[0, 1]], weight[[0, 1]].flatten(1).abs().amax(1) / largest)
    assert unit[2] == 1
    assert ((found - weight).abs() <= 0.5001 * unit.view(-1, 1, 1, 1)).all()


@every_size
def test_the_gradient_goes_straight_through(bits):
    conv = RoundedConv2d(2, 3, 3, padding=1, bits=bits)
    x = torch.randn(2, 2, 5, 5)
    conv(x).square().sum().backward()
    same = rounded(conv.weight.detach(), bits).requires_grad_()
    F.conv2d(x, same, conv.bias.detach(), padding=1).square().sum().backward()
    assert torch.equal(conv.weight.grad, same.grad)


@every_size
def test_every_backend_and_mode_computes_the_same(bits):
    conv, x = RoundedConv2d(2, 3, 3, 2, 1, bits=bits), torch.randn(2, 2, 6, 6)
    expected = F.conv2d(x, rounded(conv.weight, bits), conv.bias, 2, 1)
    assert torch.equal(conv.train()(x), expected)
    assert torch.equal(conv.eval()(x), expected)
    for name in ("torch", "plain"):
        with use_backend(name):
            assert torch.equal(conv(x), expected)
            conv(x).sum().backward()
    traced = torch.export.export(conv, (x,)).module()
    assert torch.equal(traced(x), expected)
    freeze(conv)
    assert torch.equal(conv.weight, rounded(conv.weight, bits) if conv.bits else conv.weight)
    assert torch.equal(conv(x), expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_take_stem_bits_and_differ_in_nothing_else(name):
    torch.manual_seed(0)
    plain = build(name, classes=3, stem="small")
    torch.manual_seed(0)
    with_bits = build(name, classes=3, stem="small", stem_bits=8)
    assert {key: value.shape for key, value in plain.state_dict().items()} == {
        key: value.shape for key, value in with_bits.state_dict().items()
    }
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), with_bits.parameters(), strict=True))
    found = [path for path, module in with_bits.named_modules() if isinstance(module, RoundedConv2d)]
    assert found == ["conv1" if name == "resnet18" else "stem.conv"]
    assert not any(isinstance(module, RoundedConv2d) for module in plain.modules())


@pytest.mark.parametrize("bits", [0, 1, 7, 32, -8, True])
def test_other_bits_are_one_line(bits):
    with pytest.raises(UserError, match="rounded to 8 or 16 bits, not"):
        build("ftbnn18", stem_bits=bits)


def test_a_network_of_one_stem_has_no_bits():
    with pytest.raises(UserError, match="one stem only"):
        build("toy-relu", stem_bits=8)


@every_size
def test_bytes_are_counted_and_operations_stay(bits):
    plain, other = (count(build("ftbnn18", stem_bits=given), (3, 64, 64)) for given in (None, bits))
    stem = next(layer for layer in other.layers if layer.path == "stem.conv")
    weights, channels = 64 * 3 * 7 * 7, 64
    assert (stem.real_params, stem.rounded_params, stem.weight_precision) == (0, weights, f"int{bits}")
    assert stem.packed_bytes == weights * bits // 8 + 4 * channels
    assert plain.packed_bytes - other.packed_bytes == 4 * weights - stem.packed_bytes
    assert plain.params - other.params == pytest.approx(weights * (1 - bits / 32) - channels)
    assert (plain.flops, plain.bops, plain.fp32_bytes) == (other.flops, other.bops, other.fp32_bytes)
    assert not other.uncounted


def test_a_summary_has_the_bytes():
    text = summary(nn.Sequential(RoundedConv2d(3, 4, 5, bias=False, bits=8)))
    assert "316 B packed" in text
