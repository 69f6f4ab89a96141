import pytest
import torch
import torch.nn.functional as F

from ftbnn.experiments.discrepancy import discrepancy
from ftbnn.models import build


def test_it_compares_with_the_proxies_and_the_unbinarized_input():
    network, images = build("toy-binary", width=4).eval(), torch.randn(3, 1, 8, 8)
    block = network.block1
    x = network.stem(images)
    binary = F.conv2d(torch.where(x > 0, 1.0, -1.0), torch.where(block.conv.weight > 0, 1.0, -1.0), padding=1)
    expected = (binary - F.conv2d(x, block.conv.weight, padding=1)).abs().mean().item()
    found = discrepancy(network, images)
    assert list(found["outputs"]) == ["block1.conv", "block2.conv"]
    assert found["outputs"]["block1.conv"] == pytest.approx(expected, rel=1e-5)
    assert block.conv.signs.is_binary
    assert block.conv.input.is_binary
    assert not block.conv._forward_hooks


@torch.no_grad()
def test_the_other_readings_are_what_batchnorm_makes_of_it():
    network, images = build("toy-prelu", width=4), torch.randn(3, 1, 8, 8)
    norm = network.block1.norm
    norm.weight.uniform_(-2, 2)
    norm.running_var.uniform_(0.5, 4)
    norm.running_mean.normal_()
    network.eval()
    conv, x = network.block1.conv, network.stem(images)
    found, real = discrepancy(network, images), F.conv2d(x, conv.weight, padding=1)
    for reading in ("features", "deviations"):
        expected = (norm(conv(x)) - norm(real)).abs().mean().item()
        assert found[reading]["block1.conv"] == pytest.approx(expected, rel=1e-5)
        norm.weight.fill_(1)


def test_a_real_network_has_none():
    found = discrepancy(build("toy-linear", width=4), torch.randn(2, 1, 8, 8))
    assert {value for layers in found.values() for value in layers.values()} == {0.0}
