"""IR-Net (Qin et al. 2020): weights standardised per filter, scaled by powers of two, a gradient that sharpens.

    latent = (w - mean) / std of a filter (unbiased)       scale = 2^round(log2(mean |latent|))
    d(x)   = k t (1 - tanh(t x)^2),  t = 0.1 * 100^(epoch / epochs),  k = max(1 / t, 1)     ("EDE", for both sides)

Training-only: deployment sees signs and one power of two per channel. Blocks end in Hardtanh, as does the stem.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ftbnn.nn.method import Method
from ftbnn.nn.rules import Rule, Tanh
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs


@dataclass(frozen=True)
class EDE(Tanh):
    """From nearly the identity to nearly the sign: t runs from `first` to `last`, evenly in its logarithm."""

    first: float = 0.1
    last: float = 10.0

    def at(self, share: float) -> Rule:
        t = self.first * (self.last / self.first) ** share
        return Tanh(t, max(1 / t, 1.0))


class StandardisedSigns(Signs):
    """Signs of weights with mean 0 and deviation 1 in every filter, times a power of two."""

    def __init__(self) -> None:
        super().__init__(EDE())

    def latent(self, weight: Tensor) -> Tensor:
        dims = (1, 2, 3)
        return (weight - weight.mean(dims, keepdim=True)) / weight.std(dims, keepdim=True)

    def scale(self, latent: Tensor) -> Tensor:
        return torch.exp2(latent.abs().mean(dim=(1, 2, 3)).log2().round())


def _input(channels: int, follows_relu: bool) -> Sign:  # noqa: ARG001
    return Sign(zero_one=follows_relu, rule=EDE())


IRNET = Method(
    "IR-Net: standardised weights, powers of two, a sharpening gradient",
    input=_input,
    signs=StandardisedSigns,
    act="hardtanh",
    stage_end_act="hardtanh",
    stem_act="hardtanh",
)
