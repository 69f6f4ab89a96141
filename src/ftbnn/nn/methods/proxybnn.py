"""After ProxyBNN (He et al. 2020), of which the abstract alone was at hand: signs are taken of a product.

    latent    w P, P a learned matrix of the layer that mixes the taps of a kernel, at first the identity

The paper's matrix, its size and its start are not known here. Deployment keeps the signs.
"""

import torch
from torch import Tensor, nn

from ftbnn.nn.bconv import BConv
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.rules import Polynomial, Window
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs
from ftbnn.nn.transforms import filter_mean


class MixedSigns(Signs):
    """Signs of weights whose taps are mixed."""

    def __init__(self, kernel: int) -> None:
        super().__init__(Window(1.0), magnitude=filter_mean, multiplier="none")
        self.mixture = nn.Parameter(torch.eye(kernel**2))

    def latent(self, weight: Tensor) -> Tensor:
        return (weight.flatten(2) @ self.mixture).view_as(weight)


def _conv(shape: Shape) -> BConv:
    side, signs = Sign(zero_one=shape.follows_relu, rule=Polynomial()), MixedSigns(shape.kernel)
    return BConv(shape.in_channels, shape.out_channels, **shape.window, input=side, signs=signs)


PROXYBNN = Method(
    "an approximation of ProxyBNN: signs of weights that a learned matrix mixes, tap by tap",
    conv=_conv,
    published="ImageNet R18 63.3 (ProxyBNN's paper, not certain)",
    doubt="only the paper's abstract was at hand: its matrix is another one",
)
