"""RBNN (Lin et al. 2020): weights are rotated towards their signs; inputs are centred image by image.

    latent    w + |sin(theta)| (R1' W R2 - w), w standardised by filter, W the same as an a x b matrix, theta learned
    rotation  once an epoch, three times over: B = sign(R1' W R2), then the R1, then the R2 that turn W towards B most

Training alone sees it; deployment keeps the signs. The released code is read so that gradients pass to w as they are.
"""

import math

import torch
from torch import Tensor, nn

from ftbnn.nn.bconv import BConv
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.rules import SharpeningWedge
from ftbnn.nn.scales import ChannelScale
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs
from ftbnn.nn.transforms import Standardised

ALTERNATIONS = 3


def _sides(count: int) -> tuple[int, int]:
    """a x b = count, a the largest divisor up to the root."""
    a = next(a for a in range(math.isqrt(count), 0, -1) if count % a == 0)
    return a, count // a


class RotatedSigns(Signs):
    """Of one layer's weights, whose two rotations it keeps."""

    def __init__(self, conv: BConv) -> None:
        super().__init__(SharpeningWedge(), transform=Standardised())
        self.conv = [conv]  # in a list: a layer's part does not own the layer
        for part in conv.parts:
            weight = conv.proxies(part)
            a, b = _sides(weight[0].numel())
            self.register_buffer(f"{part.weight}_first", _orthogonal(a))
            self.register_buffer(f"{part.weight}_second", _orthogonal(b))
            self.register_parameter(f"{part.weight}_theta", nn.Parameter(torch.full((len(weight),), math.pi / 2)))
        self.register_buffer("turned_at", torch.full((1,), -1.0))
        self.turned_at: Tensor

    def _of(self, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(first rotation, second, theta) of the part of this shape."""
        conv = self.conv[0]
        part = next(p for p in conv.parts if conv.proxies(p).shape == weight.shape)
        return tuple(getattr(self, f"{part.weight}_{what}") for what in ("first", "second", "theta"))

    def latent(self, weight: Tensor) -> Tensor:
        first, second, theta = self._of(weight)
        plain = self.transform(weight)
        matrices = plain.detach().view(len(weight), len(first), len(second))
        turned = (first.T @ matrices @ second).view_as(weight) - plain.detach()
        return plain + theta.sin().abs().view(-1, 1, 1, 1) * turned

    def progress(self, share: float) -> None:
        super().progress(share)
        if float(self.turned_at) != share and self.is_binary:  # a resumed epoch has turned already
            for part in self.conv[0].parts:
                self._turn(self.conv[0].proxies(part))
            self.turned_at.fill_(share)

    @torch.no_grad()
    def _turn(self, weight: Tensor) -> None:
        first, second, _ = self._of(weight)
        matrices = self.transform(weight).view(len(weight), len(first), len(second))
        for _ in range(ALTERNATIONS):
            codes = torch.where(first.T @ matrices @ second > 0, 1.0, -1.0).to(weight.dtype)
            first.copy_(_nearest((matrices @ second @ codes.mT).sum(0)))
            second.copy_(_nearest((matrices.mT @ first @ codes).sum(0)))


def _nearest(matrix: Tensor) -> Tensor:
    """The orthogonal matrix next to it: R with the largest trace of R' matrix."""
    u, _, v = torch.linalg.svd(matrix.double())
    nearest: Tensor = u @ v
    return nearest.to(matrix.dtype)


def _orthogonal(size: int) -> Tensor:
    return nn.init.orthogonal_(torch.empty(size, size))


def _conv(shape: Shape) -> BConv:
    side = Sign(rule=SharpeningWedge(of_inputs=True), image="mean")
    scale = ChannelScale(shape.out_channels)
    conv = BConv(shape.in_channels, shape.out_channels, **shape.window, input=side, scale=scale)
    conv.signs = RotatedSigns(conv)
    return conv


RBNN = Method(
    "RBNN: weights rotated towards their signs, inputs centred image by image",
    conv=_conv,
    act="hardtanh",
    stem_act="hardtanh",
    deploys="a threshold per image and convolution: its mean",
    published="ImageNet R18 59.9; CIFAR-10 R18 92.2, R20 87.8, VGG-small 91.3 (paper)",
    doubt="how gradients pass the rotation is read from the release, and was not run there",
)
