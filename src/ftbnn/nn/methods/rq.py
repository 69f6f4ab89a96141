"""After RQ (Louizos et al. 2019), 4 bits for weights and inputs: evenly spaced grids whose spacing is learned.

weights   unit * round(w / unit), -8 to 7 units        inputs   0 to 15 units
gradient  straight through inside the grid; of the unit with what is rounded off as a constant (LSQ)

RQ smoothes the grid with logistic noise and draws from it. The facts at hand are from memory; the noise is left out.
"""

import math

import torch
from torch import Tensor, nn

from ftbnn.nn.bconv import INIT_GAIN, BConv
from ftbnn.nn.levels import LEAST_UNIT, Even
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.rules import NO_RULE
from ftbnn.nn.signs import Signs

LOW, HIGH, INPUTS = -8, 7, 15
LARGEST_INPUT = 3.0  # of what BatchNorm gives, at first


class Grid(Signs):
    """Weights on 16 values."""

    def __init__(self, unit: float) -> None:
        super().__init__(NO_RULE)
        self.unit = nn.Parameter(torch.tensor([unit]))

    def forward(self, weight: Tensor) -> Tensor:
        if not self.is_binary:
            return weight
        unit = self.unit.abs().clamp_min(LEAST_UNIT)
        inside = (weight / unit).clamp(LOW, HIGH)
        if not (torch.is_grad_enabled() and inside.requires_grad):
            return inside.round() * unit
        return (inside + (inside.round() - inside).detach()) * unit

    def bits(self) -> int:
        return 32  # a file has no words for 4 bits


def _conv(shape: Shape) -> BConv:
    side = Even(INPUTS, LARGEST_INPUT / INPUTS, is_learned=True)
    conv = BConv(shape.in_channels, shape.out_channels, **shape.window, input=side, reads_real=True)
    fans = shape.kernel**2 * (shape.in_channels // shape.groups + shape.out_channels)
    mean = INIT_GAIN * math.sqrt(2 / fans) * math.sqrt(2 / math.pi)  # |w| of what weights start as
    conv.signs = Grid(2 * mean / math.sqrt(HIGH))
    return conv


RQ = Method(
    "an approximation of RQ: grids of 4 bits with learned spacing for weights and inputs",
    conv=_conv,
    act="relu",
    stem_act="relu",
    bits=(4, 4),
    deploys="32 bits a weight, inputs by steps; products are real-valued work",
    published="ImageNet R18 62.5 (RQ ST with 4/4 bits, by the FTBNN paper)",
    doubt="without RQ's noise, which was known from memory alone: this is LSQ's quantiser",
)
