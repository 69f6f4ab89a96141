"""Networks to export: the registry's at a small size, with numbers that leave nothing at its default."""

import copy
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from reader import read
from torch import nn

from ftbnn.models import REGISTRY, build
from ftbnn.nn import BConv, FPReLU, Layer, Sign
from ftbnn.packing import pack

DERIVED_V = 9  # 2v = 18 channels: uneven in 5 and 8 groups


class Forward(nn.Module):
    """A module whose forward is a function of itself and x."""

    def __init__(self, forward, **children):
        super().__init__()
        self.function = forward
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, x):
        return self.function(self, x)


def small_networks():
    """Every network of the registry, by name and stem; derived ones once for each depth and number of groups."""
    names = {}
    for name, entry in REGISTRY.items():
        if not entry.has_width:
            keywords = entry.builder.keywords
            names[f"ftbnn-d{keywords['layers']}-g{keywords['groups']}-v{DERIVED_V}"] = entry
        else:
            names[name] = entry
    return [
        (name, stem)
        for name, entry in names.items()
        for stem in (("small", "imagenet") if entry.has_stems else (None,))
    ]


def build_small(name, stem, method=None):
    """The network and an input of whole numbers, both float64."""
    network = build(name, classes=3, stem=stem, width=4 if name in REGISTRY else None, method=method).double()
    channels, side = 3, 32 if stem == "small" else 64
    if stem is None:
        channels, side = REGISTRY[name].in_channels, REGISTRY[name].image_size
    return network, torch.randint(-3, 4, (2, channels, side, side)).double()


def as_float32(tensor):
    """Numbers that the file can hold: what is left is the arithmetic."""
    return tensor.float().to(tensor.dtype)


@torch.no_grad()
def randomise(module):
    """Scales of both signs and 0, statistics, slopes and biases, all random."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
            layer.weight.copy_(torch.randn_like(layer.weight))
            layer.weight[::3] = 0
            layer.bias.normal_()
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
        elif isinstance(layer, nn.PReLU) or (isinstance(layer, Layer) and not layer.has_binary_form):
            for parameter in layer.parameters(recurse=False):
                parameter.normal_()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.copy_(as_float32(tensor))
    return module


def _choose(tensor, *choices):
    tensor.copy_(torch.tensor(choices, dtype=tensor.dtype)[torch.randint(len(choices), tensor.shape)])


@torch.no_grad()
def make_dyadic(module):
    """Small whole numbers and powers of two everywhere, so that float64 sums are exact in any order.

    A sign starts afresh at every binary convolution; a real-valued network keeps all its digits to the end, so it has
    whole numbers only and few weights that are not 0.
    """
    is_binary = any(isinstance(layer, Sign) for layer in module.modules())
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eps = 0.0
            _choose(layer.running_var, *((0.25, 1, 4) if is_binary else (0.25, 1)))
            _choose(layer.running_mean, -2, -1, 0, 1, 2)
            _choose(layer.weight, *((-1, -0.25, 0, 0.5, 1) if is_binary else (-1, 0, 1)))
            _choose(layer.bias, -1, 0, 1, 2)
        elif isinstance(layer, FPReLU):
            _choose(layer.left, 1, 1, 1, -1, 0.5)
            _choose(layer.right, 1, 1, 1, -1, 0.5)
        elif isinstance(layer, nn.PReLU):
            _choose(layer.weight, 1, 1, -1, 0.5, 0)
        elif isinstance(layer, nn.Conv2d | nn.Linear):
            _choose(layer.weight, -1, 1, *([0] * (layer.weight[0].numel() // 3)))
            if layer.bias is not None:
                _choose(layer.bias, -1, 0.5)
        elif isinstance(layer, BConv):
            for part in layer.parts:
                _choose(layer.proxies(part), -0.5, 0.5)
        elif isinstance(layer, Layer):
            for parameter in layer.parameters(recurse=False):
                _choose(parameter, -1, -0.5, 0, 0.5, 1)
    return module


def export_and_read(module, x, **settings):
    """The module's file, read again."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.ftbnn"
        report = pack(module, x, path, **settings)
        data = path.read_bytes()
    assert report.size_bytes == len(data)
    file = read(data)
    assert report.operators == len(file.operators)
    return file


def outputs(module, x):
    """(file's, module's) for a float64 input; the module is asked in evaluation mode, on a copy."""
    file = export_and_read(module, x)
    with torch.no_grad():
        expected = copy.deepcopy(module).eval()(x)
    found = file.run(x)
    return found.flatten(1), expected.flatten(1), file
