"""SYQ (Faraone et al. 2018), 1 bit for weights and 8 for inputs: a learned scale for each pixel of the kernel.

weights   a[i, j] sign(w), one a for each tap of the layer, at first the mean |w| there
inputs    clamped to [0, 1] and rounded to multiples of 1/255 (ties down); the gradient passes inside
"""

import math

import torch
from torch import Tensor, nn

from ftbnn.nn.bconv import INIT_GAIN, BConv
from ftbnn.nn.levels import Even
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.rules import NO_RULE
from ftbnn.nn.sign import sign
from ftbnn.nn.signs import Signs

LEVELS = 255


class PixelScaledSigns(Signs):
    """Signs with a learned scale for each tap."""

    def __init__(self, kernel: int, first: float) -> None:
        super().__init__(NO_RULE)
        self.taps = nn.Parameter(torch.full((kernel, kernel), first))

    def forward(self, weight: Tensor) -> Tensor:
        return sign(weight, rule=self.rule) * self.taps if self.is_binary else weight

    def bits(self) -> int:
        return 32  # a file has no words for a scale per tap


def _conv(shape: Shape) -> BConv:
    conv = BConv(shape.in_channels, shape.out_channels, **shape.window, input=Even(LEVELS, 1 / LEVELS), reads_real=True)
    fans = shape.kernel**2 * (shape.in_channels // shape.groups + shape.out_channels)
    size = INIT_GAIN * math.sqrt(2 / fans) * math.sqrt(2 / math.pi)  # the mean |w| of what weights start as
    conv.signs = PixelScaledSigns(shape.kernel, size)
    return conv


SYQ = Method(
    "SYQ: a learned scale per tap of the kernel, inputs of 8 bits",
    conv=_conv,
    act="relu",
    stem_act="relu",
    bits=(1, 8),
    deploys="32 bits a weight, inputs by steps; products are real-valued work",
    published="ImageNet R18 62.9 (paper, by the FTBNN paper)",
    doubt="the published network starts from a real-valued one",
)
