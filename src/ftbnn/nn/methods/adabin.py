"""AdaBin (Tu et al. 2022): both sides have a centre and a distance of their own.

weights   b_w + a_w sign((w - b_w) / a_w), b_w the mean of a filter, a_w its deviation (biased)
inputs    a (sign((x - b) / a) + b), a and b learned for the layer
acts      FPReLU that starts at slopes of 0.25 and 1 ("Maxout")

A product of such numbers is a binary convolution plus what depends on the sums of the input's signs and on where the
window hangs out of the image: a small real-valued convolution of one map per group and a map of ones.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.groups import split_groups
from ftbnn.nn.bconv import BConv, convolve
from ftbnn.nn.fprelu import FPReLU
from ftbnn.nn.layer import Layer
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.rules import EDE, Polynomial
from ftbnn.nn.sign import Sign, sign
from ftbnn.nn.signs import Signs

LEAST = 1e-8  # of a deviation


class CentredSign(Sign):
    """Two numbers, a (b + 1) and a (b - 1), in the place of +1 and -1."""

    def __init__(self) -> None:
        super().__init__(rule=Polynomial())
        self.distance = nn.Parameter(torch.ones(1))
        self.centre = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_binary:
            return super().forward(x)
        return self.distance * (sign((x - self.centre) / self.distance, rule=self.rule) + self.centre)


class CentredSigns(Signs):
    """Weights around the mean of their filter."""

    def __init__(self) -> None:
        super().__init__(EDE())

    def parts_of(self, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(centres, distances, codes)"""
        dims = (1, 2, 3)
        centre = weight.mean(dims, keepdim=True)
        distance = (weight - centre).square().mean(dims, keepdim=True).add(LEAST**2).sqrt()
        return centre, distance, sign((weight - centre) / distance, rule=self.rule)

    def latent(self, weight: Tensor) -> Tensor:
        return weight - weight.mean((1, 2, 3), keepdim=True)

    def forward(self, weight: Tensor) -> Tensor:
        if not self.is_binary:
            return weight
        centre, distance, codes = self.parts_of(weight)
        return centre + distance * codes


class CentredConv(BConv):
    """A binary convolution of such sides."""

    input: CentredSign
    signs: CentredSigns

    def __init__(self, in_channels: int, out_channels: int, **window: Any) -> None:
        super().__init__(in_channels, out_channels, **window, input=CentredSign(), signs=CentredSigns())

    def _convolve(self, x: Tensor) -> Tensor:
        if self.training or not (self.input.is_binary and self.signs.is_binary):
            return super()._convolve(x)
        distance, offset = self.input.distance.abs(), self.input.distance * self.input.centre
        codes = sign(x, rule=self.input.rule, shift=-self.input.centre.expand(x.shape[1]))
        centres, distances, signs = zip(*(self.signs.parts_of(self.proxies(p)) for p in self.parts), strict=True)
        out = self._one(codes, signs) * (distance * torch.cat(distances).view(-1, 1, 1))
        sums = self._group_sums(codes)
        channels = torch.tensor([self.in_channels // self.groups] * self.groups, dtype=x.dtype, device=x.device)
        channels[-1] += self.in_channels % self.groups
        maps = torch.cat([sums * distance + (offset * channels).view(-1, 1, 1), 0 * sums[:, :1] + 1], 1)
        border = torch.cat([s.sum(1, keepdim=True) * d for s, d in zip(signs, distances, strict=True)]) * offset
        kernel = torch.cat([_spread(torch.cat(centres), self._group_of_outputs(), self.groups, border), border], 1)
        return out + F.conv2d(maps, kernel, None, self.stride, self.padding, self.dilation)

    def _group_sums(self, codes: Tensor) -> Tensor:
        """The sum of the codes of each group, by a binary convolution whose weights are all +1."""
        ones = []
        for part in split_groups(self.in_channels, self.groups, self.groups):
            inside = (part.inputs.stop - part.inputs.start) // part.groups
            ones.append(sign(torch.ones(part.groups, inside, 1, 1, dtype=codes.dtype, device=codes.device)))
        tail = ones[1] if len(ones) > 1 else None
        return convolve(codes, ones[0], tail, (1, 1), (0, 0), (1, 1), self.groups)

    def _group_of_outputs(self) -> list[int]:
        each = self.out_channels // self.groups
        return [min(channel // each, self.groups - 1) for channel in range(self.out_channels)]


def _spread(centres: Tensor, group_of: list[int], groups: int, like: Tensor) -> Tensor:
    """(out, groups, kh, kw): the centre of each filter where its own group is, else 0."""
    own = F.one_hot(torch.tensor(group_of, device=centres.device), groups).to(centres.dtype)
    return (own[:, :, None, None] * centres).expand(-1, -1, *like.shape[2:])


def _maxout(channels: int) -> Layer:
    act = FPReLU(channels)
    nn.init.constant_(act.left, 0.25)
    return act


def _conv(shape: Shape) -> CentredConv:
    return CentredConv(shape.in_channels, shape.out_channels, **shape.window)


ADABIN = Method(
    "AdaBin: two numbers of their own in the place of +1 and -1, for weights and inputs",
    conv=_conv,
    act=_maxout,
    special="its Maxout is the paper's FPReLU with other first slopes",
    deploys="beside the binary convolution one of 1x1 and a small real-valued one",
    published="ImageNet R18 63.1; CIFAR-10 R18 93.1, R20 88.2, VGG-small 92.3 (paper)",
)
