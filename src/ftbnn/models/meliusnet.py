"""MeliusNet (Bethge et al. 2020): blocks that add channels, each followed by one that improves those it added.

    dense        y = x beside conv(sign(norm(x)))
    improvement  y = x, its last channels plus conv(sign(norm(x)))
    transition   norm, ReLU, max-pool, real 1x1 convolution to fewer channels

Signs are plain, gradients a window of 1.3. Padding is true zero padding, where the authors' code pads with -1.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn import BConv, Sign, Signs, StemName, Window, first_conv
from ftbnn.nn.native import normalise
from ftbnn.nn.stems import is_small

BOUND = 1.3
PAIRS = {22: (4, 5, 4, 4), 29: (4, 6, 8, 6)}  # of a dense and an improvement block, at each size
CHANNELS = {22: (160, 224, 256), 29: (128, 192, 256)}  # behind each transition, for a width of 64


def _bounded(weight: Tensor, share: float) -> Tensor:  # noqa: ARG001
    return weight.clamp(-BOUND, BOUND)


class Grown(nn.Module):
    """What both blocks compute: `growth` channels of BatchNorm, signs and a binary 3x3 convolution."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.growth = growth
        self.norm = nn.BatchNorm2d(channels)
        signs = Signs(Window(BOUND), projection=_bounded)
        self.conv = BConv(channels, growth, input=Sign(rule=Window(BOUND)), signs=signs)

    def grow(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(normalise(x, self.norm, None))
        return out


class Dense(Grown):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.grow(x)], 1)


class Improvement(Grown):
    def forward(self, x: Tensor) -> Tensor:
        kept, last = x[:, : -self.growth], x[:, -self.growth :]
        return torch.cat([kept, self.grow(x) + last], 1)


class MeliusNet(nn.Module):
    """`width` is what the stem gives and each dense block adds: 64 in the paper. `pairs` is the depth."""

    def __init__(
        self,
        *,
        layers: int = 22,
        width: int = 64,
        classes: int = 1000,
        in_channels: int = 3,
        stem: StemName = "imagenet",
        stem_bits: int | None = None,
        pairs: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        pairs = PAIRS[layers] if pairs is None else pairs
        if width % 2 or min(width, classes, in_channels, *pairs) < 1 or len(pairs) != len(CHANNELS[layers]) + 1:
            raise UserError(
                f"a MeliusNet has an even width, classes, in_channels and four numbers of pairs of 1 or more, not "
                f"width={width}, classes={classes}, in_channels={in_channels}, pairs={tuple(pairs)}"
            )
        self.stem = _stem(in_channels, width, stem, stem_bits)
        channels = width
        for number, count in enumerate(pairs):
            stage = nn.Sequential()
            for _ in range(count):
                stage.append(Dense(channels, width))
                channels += width
                stage.append(Improvement(channels, width))
            if number < len(CHANNELS[layers]):
                fewer = CHANNELS[layers][number] * width // 64
                stage.append(_transition(channels, fewer))
                channels = fewer
            self.add_module(f"stage{number + 1}", stage)
        self.head = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in ("stage1", "stage2", "stage3", "stage4"):
            x = self.get_submodule(stage)(x)
        logits: Tensor = self.fc(self.pool(self.head(x)).flatten(1))
        return logits


def _stem(in_channels: int, width: int, stem: StemName, bits: int | None) -> nn.Sequential:
    """Three 3x3 convolutions, the latter two in groups; for small images one."""
    if is_small(stem):
        return nn.Sequential(first_conv(in_channels, width, 3, stride=1, bits=bits))
    half, four, eight = width // 2, math.gcd(4, width // 2), math.gcd(8, width // 2)
    return nn.Sequential(
        *(first_conv(in_channels, half, 3, stride=2, bits=bits), nn.BatchNorm2d(half), nn.ReLU()),
        *(nn.Conv2d(half, half, 3, 1, 1, groups=four, bias=False), nn.BatchNorm2d(half), nn.ReLU()),
        *(nn.Conv2d(half, width, 3, 1, 1, groups=eight, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
        nn.MaxPool2d(3, 2, 1),
    )


def _transition(channels: int, fewer: int) -> nn.Sequential:
    """The authors have the ReLU behind the pool, where it gives the same."""
    norm, pool = nn.BatchNorm2d(channels), nn.MaxPool2d(2, 2, ceil_mode=True)
    return nn.Sequential(norm, nn.ReLU(), pool, nn.Conv2d(channels, fewer, 1, bias=False))
