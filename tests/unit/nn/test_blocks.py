import pytest
import torch
import torch.nn.functional as F

from ftbnn.errors import UserError
from ftbnn.nn import (
    BasicBlock,
    Binarizer,
    Bridge,
    DuplicateReduction,
    PlainStem,
    ProjectionReduction,
    PurifiedStem,
    activation,
    set_mode,
)


def test_basic_block_is_the_written_formula():
    block = BasicBlock(6, act="fprelu", follows_relu=False, groups=2).eval()
    x = torch.randn(2, 6, 5, 5)
    code = torch.where(x > 0, 1.0, -1.0)
    weight = torch.where(block.conv.weight > 0, 1.0, -1.0)
    expected = block.act(block.norm(F.conv2d(code, weight, padding=1, groups=2)) + x)
    assert torch.equal(block(x), expected)


@pytest.mark.parametrize("size", [8, 7, 2, 3])
def test_both_reductions_halve_odd_and_even_maps(size):
    x = torch.randn(2, 4, size, size)
    half = -(-size // 2)
    assert ProjectionReduction(4, act="fprelu", follows_relu=True)(x).shape == (2, 8, half, half)
    assert DuplicateReduction(4, groups=3, act="fprelu", follows_relu=True)(x).shape == (2, 8, half, half)


@pytest.mark.parametrize(("groups", "actual"), [(1, 2), (2, 2), (5, 5)])
def test_duplicate_reduction_has_at_least_two_groups(groups, actual):
    assert DuplicateReduction(8, groups=groups, act="relu", follows_relu=False).conv.groups == actual


def test_duplicate_reduction_shortcut_is_the_pooled_input_twice():
    block = DuplicateReduction(2, groups=1, act="none", follows_relu=False).eval()
    block.norm.weight.data.zero_()
    x = torch.randn(1, 2, 6, 6)
    pooled = F.avg_pool2d(x, 3, 2, 1)
    torch.testing.assert_close(block(x), torch.cat([pooled, pooled], 1))


@pytest.mark.parametrize(("out_channels", "groups"), [(32, 1), (34, 2), (99, 4), (20, 1)])
def test_bridge_repeats_and_cuts(out_channels, groups):
    bridge = Bridge(32, out_channels)
    assert bridge.conv.groups == groups
    assert bridge(torch.randn(1, 32, 4, 4)).shape == (1, out_channels, 4, 4)


def test_stems():
    x = torch.randn(1, 3, 64, 64)
    assert PlainStem(3, 8)(x).shape == (1, 8, 16, 16)
    assert PlainStem(3, 8, stem="small")(x).shape == (1, 8, 64, 64)
    assert PurifiedStem(3, 8)(x).shape == (1, 8, 32, 32)
    assert PurifiedStem(3, 8, stem="small")(x).shape == (1, 8, 64, 64)
    with pytest.raises(UserError, match="imagenet"):
        PlainStem(3, 8, stem="imagnet")


def test_unknown_non_linearity_names_the_nearest():
    with pytest.raises(UserError, match="fprelu"):
        activation("fprelo", 4)


def test_set_mode_reaches_every_layer():
    block = ProjectionReduction(4, act="relu", follows_relu=True)
    set_mode(block, activations="tanh", weights="real")
    assert block.conv.input.mode == "tanh"
    assert block.conv.signs.mode == "real"
    set_mode(block, activations="sign", weights="binary")
    assert {m.mode for m in block.modules() if isinstance(m, Binarizer)} == {"sign", "binary"}
    set_mode(block)
    assert {m.mode for m in block.modules() if isinstance(m, Binarizer)} == {"sign", "binary"}
    with pytest.raises(UserError, match="unknown mode of weights 'reel'; did you mean real"):
        set_mode(block, weights="reel")


def test_a_block_trains_under_compile_autocast_and_channels_last():
    block = DuplicateReduction(8, groups=3, act="fprelu", follows_relu=True).to(memory_format=torch.channels_last)
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    x = torch.randn(4, 8, 8, 8).relu().to(memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled(x).float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in block.parameters())
