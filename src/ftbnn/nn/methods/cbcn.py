"""CBCN (Liu et al. 2019): a filter is used in four directions, turned by 90 degrees each.

    stored    [out / 4][in / 4 * 4][kh][kw]: four dimensions, as every weight that PyTorch lays out channels last
    filters   of direction r: channel i is stored channel (i + r) mod 4, turned r times
    weights   the layer's mean |w|, through which gradients pass, times signs

A file has all four directions, four bits for each stored weight. Published networks are four times as wide beside that.
"""

import math

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.groups import Part
from ftbnn.nn.bconv import INIT_GAIN, BConv
from ftbnn.nn.layer import Packed
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.rules import Polynomial
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs
from ftbnn.nn.transforms import layer_mean

DIRECTIONS = 4


class CirculantConv(BConv):
    """A binary convolution whose filters are one another's, turned."""

    def __init__(self, shape: Shape) -> None:
        if shape.groups > 1 or shape.in_channels % DIRECTIONS or shape.out_channels % DIRECTIONS:
            raise UserError(
                f"cbcn turns filters in four directions: it needs one group and multiples of 4 channels, not "
                f"{shape.in_channels} -> {shape.out_channels} in {shape.groups}"
            )
        signs = Signs(Polynomial(), magnitude=layer_mean, multiplier="function")
        sizes = (shape.in_channels, shape.out_channels)
        super().__init__(
            *sizes, **shape.window, input=Sign(zero_one=shape.follows_relu, rule=Polynomial()), signs=signs
        )

    def reset_parameters(self) -> None:
        inputs, outputs, taps = self.in_channels, self.out_channels, math.prod(self.kernel_size)
        self.weight = nn.Parameter(torch.empty(outputs // DIRECTIONS, inputs, *self.kernel_size))
        nn.init.normal_(self.weight, std=INIT_GAIN * math.sqrt(2.0 / ((inputs + outputs) * taps)))

    def proxies(self, part: Part) -> Tensor:  # noqa: ARG002
        if len(self.weight) == self.out_channels:  # frozen
            return self.weight
        stored = self.weight.reshape(len(self.weight), -1, DIRECTIONS, *self.kernel_size)
        turned = [torch.rot90(stored.roll(-r, 2), r, (3, 4)) for r in range(DIRECTIONS)]
        filters = torch.stack(turned, 1)  # [out / 4][direction][in / 4][4][kh][kw]
        return filters.reshape(self.out_channels, self.in_channels, *self.kernel_size)

    def after_step(self) -> None:
        pass

    def binary_parameters(self) -> list[nn.Parameter]:
        return []

    def rounded_parameters(self) -> dict[nn.Parameter, int]:
        return {self.weight: DIRECTIONS} if self.signs.is_binary else {}

    @torch.no_grad()
    def freeze(self) -> None:
        self.weight = nn.Parameter(self.signs(self.proxies(self.parts[0])))
        self.signs.set_mode("real")

    @torch.no_grad()
    def adopt(self, packed: Packed) -> None:
        """Of the four directions the first is what is stored."""
        if packed.positive is None:
            return
        size = self.weight.abs().mean()
        first = packed.positive[0].view(-1, DIRECTIONS, *self.weight.shape[1:])[:, 0]
        self.weight.copy_(torch.where(first, size, -size))
        packed.scale = packed.scale / size.double()


CBCN = Method(
    "CBCN: filters used in four directions, turned by 90 degrees",
    conv=CirculantConv,
    act="prelu",
    stem_act="prelu",
    special="needs widths that are multiples of 4 and one group",
    published="ImageNet R18 61.4 (paper), in a network four times as wide",
)
