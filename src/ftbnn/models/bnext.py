"""BNext-T (Guo et al. 2022): ReActNet-A's shape with a gate behind every binary convolution.

    processor    u = PReLU(norm(conv(sign(x + b)))),  u = u * gate,  y = norm(u) + x
    gate         sigmoid(W2 relu(W1 mean(t x + (1 - t) u))), t learned per channel in [0, 1]
    every second 3x3 processor multiplies by PReLU(x) before its last norm, and adds that in the place of x

Weights begin as w / T, clamped to [-1, 1], and T falls to 0 over the first three tenths of the training: by 0.9 an
epoch of the published 512. Evaluation, as deployment, has signs from the first epoch on.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.models.mobile import BLOCKS, Mobile, Place, half
from ftbnn.nn import BConv, Layer, Signs, StemName, Window
from ftbnn.nn.native import average, normalise
from ftbnn.nn.rules import NO_RULE
from ftbnn.nn.sign import RSign

BOUND = 1.5  # of the window of inputs' gradients, and of weights
COOLING, EPOCHS, COLD = 0.9, 512, 1e-7
REDUCTION = 8


def _bounded(weight: Tensor, share: float) -> Tensor:  # noqa: ARG001
    return weight.clamp(-BOUND, BOUND)


class CooledSigns(Signs):
    """Signs that training begins as nearly straight lines."""

    def __init__(self) -> None:
        super().__init__(NO_RULE, projection=_bounded)

    @property
    def temperature(self) -> float:
        return float(COOLING ** (EPOCHS * self.share))

    def forward(self, weight: Tensor) -> Tensor:
        if not (self.is_binary and self.training and self.temperature >= COLD):
            return super().forward(weight)
        soft = (weight / self.temperature).clamp(-1, 1)
        return weight + (soft - weight).detach()


class MixedGate(Layer):
    """A factor per image and channel, from the means of what a convolution reads and gives."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = max(1, channels // REDUCTION)
        self.share = nn.Parameter(torch.full((channels,), 0.5))
        self.squeeze = nn.Linear(channels, hidden)
        self.excite = nn.Linear(hidden, channels)

    def forward(self, out: Tensor, x: Tensor) -> Tensor:
        means = self.share * x.mean((2, 3)) + (1 - self.share) * out.mean((2, 3))  # of the mixture
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(means))))
        return out * gate[:, :, None, None]

    @torch.no_grad()
    def after_step(self) -> None:
        self.share.clamp_(0, 1)


class Processor(nn.Module):
    """One binary convolution that keeps its channels. `attends`: it multiplies with its shortcut before it adds it."""

    def __init__(self, channels: int, kernel: int, *, stride: int = 1, attends: bool = False) -> None:
        super().__init__()
        side = RSign(channels, rule=Window(BOUND))
        self.conv = BConv(channels, channels, kernel, stride, input=side, signs=CooledSigns())
        self.norm = nn.BatchNorm2d(channels)
        self.act = nn.PReLU(channels)
        self.gate = MixedGate(channels)
        self.end_norm = nn.BatchNorm2d(channels)
        self.shortcut_act = nn.PReLU(channels) if attends else None
        self.pool = half(stride)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.shortcut_act is None else self.shortcut_act(x)
        if self.pool is not None:
            shortcut = average(shortcut, self.pool)
        out = self.gate(normalise(self.conv(x), self.norm, self.act), x)
        if self.shortcut_act is not None:
            out = out * shortcut
        return normalise(out, self.end_norm, None, shortcut=shortcut)


class BNextBlock(nn.Module):
    """A 3x3 processor, then one of 1x1; two side by side where channels double."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        channels = place.channels
        self.spatial = Processor(channels, 3, stride=place.stride, attends=place.number % 2 == 1)
        self.points = nn.ModuleList(Processor(channels, 1) for _ in range(2 if place.is_wider else 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.spatial(x)
        return torch.cat([point(x) for point in self.points], 1)


class BNext(Mobile):
    """Widths 2w to 32w; w = 32 is the paper's Tiny, 48 its Small."""

    def __init__(
        self,
        *,
        width: int = 32,
        classes: int = 1000,
        in_channels: int = 3,
        stem: StemName = "imagenet",
        stem_bits: int | None = None,
        blocks: Sequence[int] = BLOCKS,
    ) -> None:
        super().__init__(
            BNextBlock,
            width=width,
            classes=classes,
            in_channels=in_channels,
            stem=stem,
            stem_bits=stem_bits,
            blocks=blocks,
            head_act=nn.PReLU,
        )
