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
    assert list(found) == ["block1.conv", "block2.conv"]
    assert found["block1.conv"] == pytest.approx(expected, rel=1e-5)
    assert block.conv.signs.is_binary
    assert block.conv.input.is_binary
    assert not block.conv._forward_hooks


def test_a_real_network_has_none():
    assert set(discrepancy(build("toy-linear", width=4), torch.randn(2, 1, 8, 8)).values()) == {0.0}
