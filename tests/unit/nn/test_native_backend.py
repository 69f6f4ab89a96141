"""The native backend in whole networks, and when it steps aside."""

import copy

import pytest
import torch
from torch import nn

from ftbnn.models import build
from ftbnn.nn import BasicBlock, BConv, set_backend, set_mode
from ftbnn.nn.native import Layers, fits, listeners


def native_calls(network, images):
    """The convolutions whose blocks run natively."""
    seen = []
    listen = lambda conv, *_: seen.append(conv)  # noqa: E731
    listeners.append(listen)
    try:
        network(images)
    finally:
        listeners.remove(listen)
    return seen


@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn18-relu", "bireal18", "ftbnn-d18-g3-v5"])
def test_a_whole_network_has_the_loss_and_the_gradients_of_the_torch_backend(name, monkeypatch):
    """Baseline, ReLU codes, scaling factors; bridge, uneven groups and duplicates. Odd sizes on the way down."""
    monkeypatch.setenv("FTBNN_ISA", "portable")  # float gradients: what is left are roundings
    torch.manual_seed(0)
    network = build(name, classes=3, width=None if "-d18" in name else 4, stem="small")
    twin = copy.deepcopy(network)
    set_backend(network, "native")
    images, labels = torch.randn(4, 3, 27, 27), torch.tensor([0, 1, 2, 0])
    assert len(native_calls(copy.deepcopy(network), images)) == sum(isinstance(m, BConv) for m in network.modules())
    losses = [nn.functional.cross_entropy(net(images), labels) for net in (network, twin)]
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    for loss in losses:
        loss.backward()
    for (path, ours), theirs in zip(network.named_parameters(), twin.parameters(), strict=True):
        assert (ours.grad - theirs.grad).norm() <= 1e-3 * theirs.grad.norm() + 1e-6, path


def test_real_valued_layers_and_layers_with_hooks_run_in_torch():
    network = build("ftbnn18", classes=3, width=4, stem="small")
    set_backend(network, "native")
    images = torch.randn(2, 3, 16, 16)
    count = len(native_calls(network, images))
    set_mode(network, activations="tanh", weights="real")
    assert not native_calls(network, images)
    set_mode(network)
    outputs = []
    handle = network.stage1[0].conv.register_forward_hook(lambda *_: outputs.append(_[-1]))
    assert len(native_calls(network, images)) == count - 1
    assert len(outputs) == 1
    handle.remove()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not native_calls(network, images)
    assert not native_calls(network.double(), images.double())


def test_a_sum_too_large_for_16_bits_runs_in_torch():
    block = BasicBlock(4000, act="none", follows_relu=False)
    set_backend(block, "native")
    assert not fits(torch.zeros(1, 4000, 1, 1), Layers(block.sign, block.conv, block.norm, block.act))


def test_one_value_per_channel_is_refused_as_batch_norm_does():
    block = BasicBlock(4, act="relu", follows_relu=False)
    set_backend(block, "native")
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        block(torch.zeros(1, 4, 1, 1))


def test_accumulated_gradients_add_up():
    torch.manual_seed(0)
    block = BasicBlock(8, act="fprelu", follows_relu=False).eval()
    set_backend(block, "native")
    x = torch.randn(4, 8, 5, 5)
    block(x).sum().backward()
    whole = [p.grad.clone() for p in block.parameters()]
    block.zero_grad()
    for half in x.split(2):
        block(half).sum().backward()
    for parameter, grad in zip(block.parameters(), whole, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=2e-2, atol=2e-2)


def test_no_gradient_no_memory():
    block = BasicBlock(8, act="fprelu", follows_relu=False)
    set_backend(block, "native")
    with torch.no_grad():
        assert block(torch.randn(2, 8, 4, 4)).grad_fn is None
    assert block(torch.randn(2, 8, 4, 4)).grad_fn is not None
