import copy

import pytest
import torch
import torch.nn.functional as F
from export_networks import Forward, export_and_read, outputs, randomise
from torch import nn

from ftbnn.models import build
from ftbnn.nn import BConv, FPReLU, MeanScaledSigns, Sign, Signs, set_mode, sign
from ftbnn.nn.methods.reactnet import RSign

FLOAT32_ROUNDING = 1e-6  # of a few layers' scales and shifts


def check(module, *shape):
    """Exports and compares; returns the file."""
    module = randomise(module.double())
    found, expected, file = outputs(module, torch.randn(2, *shape, dtype=torch.float64))
    torch.testing.assert_close(found, expected, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING)
    return file


class Mixed(nn.Module):
    """A user's own network: modules, functions, methods, operators, parameters and a default argument."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding="same")
        self.weight = nn.Parameter(torch.randn(8, 4, 3, 3))
        self.norm = nn.BatchNorm2d(8)
        self.slope = nn.Parameter(torch.randn(1))
        self.gain = nn.Parameter(torch.randn(8, 1, 1))
        self.conv = BConv(16, 8, stride=2, groups=3)
        self.drop = nn.Dropout(0.4)
        self.fc = nn.Linear(8, 5)

    def forward(self, x, scale=None):
        assert scale is None
        if x.shape[1] != 3:
            raise ValueError("not an image")
        x = F.relu(self.stem(x))
        y = F.conv2d(sign(x, zero_one=True), sign(self.weight), padding=1, groups=2)
        y = F.prelu(self.norm(y), self.slope) * self.gain + 0.5
        y += x
        a, b = y.chunk(2, dim=1)
        wide = torch.cat([b, a, x[:, ::2], torch.flip(a, (1,))], 1)
        y = self.conv(sign(wide)) - F.avg_pool2d(y, 2)
        y = torch.nn.functional.leaky_relu(y, 0.125)
        y = F.max_pool2d(self.drop(y), 3, stride=2, ceil_mode=True)
        y = F.adaptive_avg_pool2d(y, (1, 1)).view(x.size(0), -1)
        return self.fc(y).contiguous()


def test_a_users_own_network_of_functions_and_modules():
    file = check(Mixed(), 3, 12, 12)
    assert file.kinds.count("bconv") == 2
    assert {"stem", "conv", "fc", "conv2d", "max_pool2d", "cat"} <= {operator.path for operator in file.operators}


HEADS = {
    "flatten": lambda x: x.flatten(1),
    "flatten function": lambda x: torch.flatten(x, 1),
    "view": lambda x: x.view(x.size(0), -1),
    "reshape": lambda x: x.reshape(x.shape[0], -1),
    "channels last": lambda x: x.permute(0, 2, 3, 1).flatten(1),
    "mean": lambda x: x.mean((2, 3)),
    "mean kept": lambda x: torch.mean(x, dim=[-1, -2], keepdim=True),
    "pool": lambda x: F.avg_pool2d(x, x.shape[2:]).flatten(1),
    "squeeze": lambda x: F.adaptive_avg_pool2d(x, 1).squeeze(),
    "pixel": lambda x: x[:, :, 0, 0],
}


@pytest.mark.parametrize("name", HEADS)
def test_ways_to_make_a_vector(name):
    check(Forward(lambda _, x: HEADS[name](x)), 4, 6, 6)


MOVES = {
    "repeat": lambda x: x.repeat(1, 3, 1, 1)[:, :10],
    "stack": lambda x: torch.stack([x, x], 2).flatten(1, 2),
    "shuffle": lambda x: x.view(x.size(0), 2, 2, *x.shape[2:]).transpose(1, 2).reshape(x.shape),
    "channel shuffle": lambda x: F.channel_shuffle(x, 2),
    "select": lambda x: torch.index_select(x, 1, torch.tensor([3, 1])),
    "split": lambda x: torch.cat(x.split([1, 3], dim=1)[::-1], 1),
    "interleave": lambda x: x.repeat_interleave(2, 1),
    "slice": lambda x: x[:, 1:3],
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("coded", [False, True])
def test_moves_of_channels_are_one_map_before_or_behind_a_sign(name, coded):
    move = MOVES[name]
    channels = move(torch.zeros(1, 4, 2, 2)).shape[1]
    if not coded:
        file = check(Forward(lambda _, x: move(move(x)) if channels == 4 else move(x)), 4, 5, 5)
        assert file.kinds in (["channels"], ["pointwise"])  # a shuffle of two by two, twice, is nothing
        return
    network = Forward(lambda m, x: m.conv(move(m.sign(x))), sign=Sign(), conv=BConv(channels, 3))
    assert check(network, 4, 5, 5).kinds == ["channels", "bconv"]


def test_codes_pass_through_max_pools_and_concatenations():
    network = Forward(
        lambda m, x: m.conv(torch.cat([F.max_pool2d(m.sign(x), 2), m.sign(F.avg_pool2d(x, 2))], 1)),
        sign=Sign(),
        conv=BConv(8, 3),
    )
    assert check(network, 4, 6, 6).kinds == ["max-pool", "avg-pool", "concat", "bconv"]


POOLS = {
    "padded": nn.AvgPool2d(3, 2, 1),
    "padded, inside only": nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "ceil": nn.AvgPool2d(2, 2, ceil_mode=True),
    "ceil, inside only, padded": nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
    "divisor": nn.AvgPool2d((2, 3), 2, ceil_mode=True, divisor_override=6),
    "max": nn.MaxPool2d(3, 2, 1),
    "max, ceil": nn.MaxPool2d((3, 2), (2, 3), (1, 0), ceil_mode=True),
    "adaptive": nn.AdaptiveAvgPool2d((3, 2)),
    "whole image": nn.AvgPool2d((7, 8)),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools_divide_as_pytorch_does(name):
    check(nn.Sequential(copy.deepcopy(POOLS[name])), 3, 7, 8)


@pytest.mark.parametrize("side", [13, 14, 15, 16])
def test_reductions_of_odd_maps(side):
    network = build("ftbnn18", width=4, classes=3, stem="small")
    check(network, 3, side, side + 1)


CONVS = {
    "even kernel, same": nn.Conv2d(4, 6, (2, 4), padding="same"),
    "valid": nn.Conv2d(4, 6, 3, padding="valid"),
    "depthwise": nn.Conv2d(4, 8, 3, groups=4, padding=1),
    "strides": nn.Conv2d(4, 6, (3, 5), (2, 3), (0, 2), bias=False),
    "proxies": BConv(4, 6, groups=3, signs=Signs(mode="real")),
}


@pytest.mark.parametrize("name", CONVS)
def test_real_convolutions(name):
    assert check(nn.Sequential(copy.deepcopy(CONVS[name])), 4, 9, 10).kinds == ["conv"]


@pytest.mark.parametrize("signs", [Signs(), MeanScaledSigns()])
def test_signs_on_real_numbers_are_integers(signs):
    """A quarter of the bytes, and the same numbers."""
    assert check(nn.Sequential(BConv(4, 6, groups=3, signs=signs)), 4, 9, 10).kinds == ["rounded conv"]


class Shifted(Sign):
    """A user's RSign, who does not know that a sign can be asked for its shift."""

    def __init__(self, channels):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return super().forward(x + self.bias.view(-1, 1, 1))


def test_subclasses_of_layers_are_exported_as_what_they_do():
    class Scaled(BConv):
        def __init__(self, *args, **settings):
            super().__init__(*args, **settings)
            self.gain = nn.Parameter(torch.randn(self.out_channels, 1, 1))

        def forward(self, x):
            return super().forward(x) * self.gain

    for sign_of in (Shifted(4), RSign(4)):
        (operator,) = check(nn.Sequential(sign_of, Scaled(4, 6), nn.BatchNorm2d(6)), 4, 5, 5).operators
        assert operator.kind == "bconv"
        assert torch.equal(operator.threshold, -sign_of.bias.data)


@pytest.mark.parametrize("padding", ["same", "valid", 2])
def test_paddings_by_name(padding):
    (operator,) = check(BConv(4, 6, 3, padding=padding, input=Sign()), 4, 7, 8).operators
    assert operator.padding == {"same": (1, 1), "valid": (0, 0), 2: (2, 2)}[padding]


def test_a_layer_alone_is_a_network():
    assert check(FPReLU(4), 4, 3, 3).kinds == ["pointwise"]
    assert check(BConv(4, 5, groups=3), 4, 3, 3).kinds == ["rounded conv"]
    assert check(nn.Identity(), 4, 3, 3).kinds == ["pointwise"]


@pytest.mark.parametrize("activations", ["identity", "tanh"])
def test_the_real_valued_step_of_multi_step_training(activations):
    network = build("ftbnn18", width=4, classes=3, stem="small")
    set_mode(network, activations=activations, weights="real")
    assert "bconv" not in check(network, 3, 16, 16).kinds


def test_in_place_functions_change_every_name_of_a_tensor():
    def forward(m, x):
        y = m.conv(x)
        z = m.relu(y)
        y += 1  # z and y are one tensor
        return y + z.mul_(2)

    check(Forward(forward, conv=nn.Conv2d(2, 2, 1), relu=nn.ReLU(inplace=True)), 2, 3, 3)


def test_the_module_is_left_as_it_was():
    network = build("ftbnn18", width=4, classes=3, stem="small").train()
    network.stage2.eval()
    network.register_buffer("seen", torch.zeros(1))
    modes = {path: layer.training for path, layer in network.named_modules()}
    state, names = copy.deepcopy(network.state_dict()), set(vars(network))
    x = torch.randn(1, 3, 16, 16)
    before = x.clone()
    export_and_read(network, x)
    assert {path: layer.training for path, layer in network.named_modules()} == modes
    assert all(torch.equal(state[name], tensor) for name, tensor in network.state_dict().items())
    assert set(vars(network)) == names
    assert torch.equal(x, before)
