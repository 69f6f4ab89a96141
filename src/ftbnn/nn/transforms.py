"""What methods do to real-valued weights before their signs are taken, and to the signs' magnitude.

transform    weights -> what signs are taken of; training alone sees it. A schedule is a function of the progress
magnitude    what each output channel of signs is multiplied with
projection   where weights are put back to after every step
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

FILTER = (1, 2, 3)  # the dimensions of one output channel's weights

Magnitude = Callable[[Tensor], Tensor]
Projection = Callable[[Tensor, float], Tensor]  # of weights, when this share of the training is done


@dataclass(frozen=True)
class Transform:
    """The identity; another one overrides `__call__`, and `at` where it follows a schedule."""

    def __call__(self, weight: Tensor) -> Tensor:
        return weight

    def at(self, share: float) -> "Transform":  # noqa: ARG002
        return self

    def weights_of(self, positive: Tensor, size: Tensor) -> Tensor:
        """Weights of about this size whose signs are +1 there."""
        return torch.where(positive, size, -size)


@dataclass(frozen=True)
class Standardised(Transform):
    """Mean 0 and this deviation in every filter (unbiased)."""

    deviation: float = 1.0
    eps: float = 0.0

    def __call__(self, weight: Tensor) -> Tensor:
        # As a layer norm, whose passes over the weights are few, forward and backward: its variance is the biased one.
        count = weight[0].numel()
        share = (count - 1) / count
        gain = weight.new_full((count,), self.deviation * math.sqrt(share))
        flat = F.layer_norm(weight.flatten(1), (count,), gain, eps=self.eps * share)
        return flat.view_as(weight)


@dataclass(frozen=True)
class Revived(Standardised):
    """Standardised, then clamped to the tau quantile of a Laplace distribution of the layer's mean magnitude: weights
    far out are brought back to where they can turn (ReCU). tau = A e^share + B runs from `first` to `last`."""

    deviation: float = 2 * math.sqrt(2)
    eps: float = 1e-5
    first: float = 0.85
    last: float = 0.99
    tau: float = 0.85

    def __call__(self, weight: Tensor) -> Tensor:
        latent = super().__call__(weight)
        edge = -latent.detach().abs().mean() * math.log(2 - 2 * self.tau)
        return torch.maximum(torch.minimum(latent, edge), -edge)

    def at(self, share: float) -> Transform:
        a = (self.last - self.first) / (math.e - 1)
        return replace(self, tau=a * math.exp(share) + self.first - a)


@dataclass(frozen=True)
class AboveMedian(Standardised):
    """Positive for the half of a filter's weights that is largest in magnitude: signs say large or small (SiMaN)."""

    def __call__(self, weight: Tensor) -> Tensor:
        size = super().__call__(weight).abs()
        return size - size.detach().flatten(1).median(1).values.view(-1, 1, 1, 1)

    def weights_of(self, positive: Tensor, size: Tensor) -> Tensor:
        """Large and small ones, each half of them negative, so that the mean is next to 0."""
        flat = positive.flatten(1)
        turns = torch.where(flat, flat.cumsum(1), (~flat).cumsum(1)) % 2
        sizes = torch.where(flat, 1.5 * size, 0.5 * size)
        return torch.where(turns == 1, sizes, -sizes).view_as(positive)


def filter_mean(latent: Tensor) -> Tensor:
    """The mean magnitude of each filter (XNOR-Net, Bi-Real Net)."""
    return latent.abs().mean(FILTER)


def layer_mean(latent: Tensor) -> Tensor:
    """One mean magnitude for all filters of the layer."""
    return latent.abs().mean().expand(len(latent))


def power_of_two(latent: Tensor) -> Tensor:
    """The power of two next to each filter's mean magnitude: a shift of bits (IR-Net)."""
    sums = torch.linalg.vector_norm(latent, 1, FILTER)  # in one pass
    return torch.exp2((sums / latent[0].numel()).log2().round())


def clamped(weight: Tensor, share: float) -> Tensor:  # noqa: ARG001
    """To [-1, 1] (BinaryConnect, BNN)."""
    return weight.clamp(-1, 1)


def centred(weight: Tensor, share: float) -> Tensor:
    """Mean 0 over the input channels of each tap, then to [-1, 1] (XNOR-Net)."""
    return clamped(weight - weight.mean(1, keepdim=True), share)


def clipped(weight: Tensor, share: float) -> Tensor:
    """Mean 0 in each filter, magnitudes between the p-th percentiles of the layer's, p from 15 to 0 (SiMaN)."""
    weight = weight - weight.mean(FILTER, keepdim=True)
    size, p = weight.abs(), 0.15 * (1 - share)
    order = size.flatten().sort().values
    low, high = (order[round(q * (len(order) - 1))] for q in (p, 1 - p))
    return torch.where(weight < 0, -1.0, 1.0) * size.clamp(low, high)
