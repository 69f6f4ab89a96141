"""ReActNet (Liu et al. 2020): signs and PReLUs whose thresholds are learned, channel by channel.

RSign     code = x + b > 0                          gradient max(0, 2 - 2|x + b|), of the weights 1 where |w| <= 1
RPReLU    y = PReLU(x + before) + after             slope 0.25 at first
weights   mean |w| * sign(w) of a filter
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.nn.layer import Layer, Packed
from ftbnn.nn.method import Method
from ftbnn.nn.piecewise import Slopes
from ftbnn.nn.rules import Polynomial, Window
from ftbnn.nn.sign import RSign, Sign
from ftbnn.nn.signs import Signs
from ftbnn.nn.transforms import filter_mean


class RPReLU(Layer):
    """A PReLU whose knee is learned: moved along x before it, along y behind it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before = nn.Parameter(torch.zeros(channels))
        self.slope = nn.Parameter(torch.full((channels,), 0.25))
        self.after = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(x + self.before.view(-1, 1, 1), self.slope) + self.after.view(-1, 1, 1)

    def slopes(self) -> Slopes:
        return Slopes(left=self.slope, before=self.before, after=self.after)

    @torch.no_grad()
    def adopt(self, packed: Packed) -> None:
        if packed.left is not None and packed.after is not None:
            self.slope.copy_(packed.left)
            self.after.copy_(packed.after)
            self.before.zero_()  # it is part of the operator's shift


def _input(channels: int, follows_relu: bool) -> Sign:
    return RSign(channels, zero_one=follows_relu, rule=Polynomial())


REACTNET = Method(
    "ReActNet: learned thresholds before signs and around PReLUs",
    input=_input,
    signs=lambda: Signs(Window(1.0), magnitude=filter_mean, multiplier="none"),
    act=RPReLU,
    published="ImageNet R18 65.5 (paper), 65.9 (the authors' code, two steps and a teacher)",
)
