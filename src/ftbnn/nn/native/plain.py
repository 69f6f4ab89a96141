"""Blocks and norms written with PyTorch's operators, for any device: the reference of the native core.

Bits stand with their position, channels last: (n, h, w, ceil(c / 64)) words, channel c is bit c % 64 of word c / 64.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

WORD = 64


def pack(bits: Tensor) -> Tensor:
    """(n, c, h, w) of bool to words."""
    last = F.pad(bits.permute(0, 2, 3, 1), (0, -bits.shape[1] % WORD))
    words = last.reshape(*last.shape[:-1], -1, WORD).long() << torch.arange(WORD, device=bits.device)
    return words.sum(-1)


def unpack(words: Tensor, channels: int) -> Tensor:
    """Words to (n, channels, h, w) of bool."""
    bits = (words.unsqueeze(-1) >> torch.arange(WORD, device=words.device)) & 1
    return bits.flatten(-2)[..., :channels].permute(0, 3, 1, 2).bool()


def per_channel(numbers: Tensor | None, default: float, like: Tensor) -> Tensor:
    """One number per channel of a map, as a map of one position."""
    return (like.new_full((1,), default) if numbers is None else numbers).view(1, -1, 1, 1)


def sum_positions(x: Tensor) -> Tensor:
    return x.sum((0, 2, 3))


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each channel, in double precision."""
    wide = x.double()
    return wide.mean((0, 2, 3)), wide.var((0, 2, 3), unbiased=False)


def running(
    given: dict[str, Any], mean: Tensor, variance: Tensor, momentum: float, count: int
) -> tuple[Tensor, Tensor]:
    """The running statistics after a batch of so many positions."""
    now = mean, variance * count / (count - 1)
    before = given["running_mean"], given["running_var"]
    new_mean, new_var = (
        ((1 - momentum) * old.double() + momentum * new).float() for old, new in zip(before, now, strict=True)
    )
    return new_mean, new_var


def activate(z: Tensor, given: dict[str, Any], limit: float = math.inf) -> Tensor:
    slope = torch.where(z > 0, per_channel(given["right"], 1, z), per_channel(given["left"], 1, z))
    return (slope * z).clamp(-limit, limit) + per_channel(given.get("after"), 0, z)


def activate_backward(grad: Tensor, z: Tensor, given: dict[str, Any], limit: float = math.inf) -> dict[str, Tensor]:
    """The gradient of z, and those of the slopes and of what is added behind them."""
    slope = torch.where(z > 0, per_channel(given["right"], 1, z), per_channel(given["left"], 1, z))
    above = z.clamp_min(0)
    return {
        "z": grad * slope * (1 if math.isinf(limit) else z.abs() < limit),
        "left": sum_positions(grad * (z - above)),
        "right": sum_positions(grad * above),
        "after": sum_positions(grad),
    }


def codes(bits: Tensor, zero_one: bool, like: Tensor) -> Tensor:
    ones = bits.to(like.dtype)
    return ones if zero_one else 2 * ones - 1


def _parts(x: Tensor, given: dict[str, Any], settings: Any) -> list[tuple[Tensor, str, int]]:
    """(inputs, name of the weights, groups) of each run of equal groups."""
    if given["tail"] is None:
        return [(x, "weight", settings.groups)]
    head = (settings.groups - 1) * given["weight"].shape[1]
    return [(x[:, :head], "weight", settings.groups - 1), (x[:, head:], "tail", 1)]


def _signs(weight: Tensor, like: Tensor) -> Tensor:
    return codes(weight > 0, False, like)


def convolve(x: Tensor, given: dict[str, Any], settings: Any) -> Tensor:
    outputs = [
        F.conv2d(part, _signs(given[name], x), None, settings.stride, settings.padding, 1, groups)
        for part, name, groups in _parts(x, given, settings)
    ]
    return torch.cat(outputs, 1)


def convolve_backward(dy: Tensor, x: Tensor, given: dict[str, Any], settings: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """The gradient of the codes, and those of the weights inside their window."""
    of_inputs, of_weights, at = [], {}, 0
    for part, name, groups in _parts(x, given, settings):
        weight = given[name]
        grad, at = dy[:, at : at + weight.shape[0]], at + weight.shape[0]
        window = (settings.stride, settings.padding, (1, 1), False, (0, 0), groups, (True, True, False))
        found = torch.ops.aten.convolution_backward(grad, part, _signs(weight, x), None, *window)
        of_inputs.append(found[0])
        of_weights[name] = found[1] * (weight.abs() <= settings.weight_bound)
    return torch.cat(of_inputs, 1), of_weights


def block_z(y: Tensor, saved: Tensor, shortcut: Tensor | None) -> Tensor:
    z = saved[0].view(1, -1, 1, 1) * y + saved[1].view(1, -1, 1, 1)
    return z if shortcut is None else z + shortcut
