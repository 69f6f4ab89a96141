"""Signs: how the real-valued weights of a binary convolution become codes, and what scales each output channel.

    weights multiply as   scale[o] * sign(latent),   latent a function of the weights that deployment never sees

The plain form is the paper's: latent is the weight itself, and no scale, which BatchNorm would absorb.
"""

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ftbnn.errors import unknown
from ftbnn.nn.binarizer import Binarizer
from ftbnn.nn.rules import DEFAULT_BOUND, Rule, Window
from ftbnn.nn.sign import sign
from ftbnn.nn.transforms import Magnitude, Projection, Transform, filter_mean

WeightMode = Literal["binary", "real"]
WEIGHT_MODES: tuple[WeightMode, ...] = ("binary", "real")
# What the scale is to the gradient of the weights: a constant factor; nothing, they learn as if there were none; or a
# function of them, through which they learn too.
Multiplier = Literal["factor", "none", "function"]
Weighted = tuple[Tensor, Tensor]  # a number for each output channel, and codes


class Signs(Binarizer):
    """(out, in, kh, kw) weights to codes in {-1, +1}. `mode="real"` leaves them as they are (multi-step training)."""

    role = "weights"
    modes = WEIGHT_MODES

    def __init__(
        self,
        rule: Rule | None = None,
        *,
        bound: float = DEFAULT_BOUND,
        mode: WeightMode = "binary",
        transform: Transform | None = None,
        magnitude: Magnitude | None = None,
        multiplier: Multiplier = "factor",
        projection: Projection | None = None,
    ) -> None:
        super().__init__(rule or Window(bound), mode)
        if multiplier not in get_args(Multiplier):
            raise unknown("multiplier", multiplier, get_args(Multiplier))
        self.transforms = transform or Transform()
        self.transform = self.transforms.at(0.0)
        self.magnitude, self.multiplier, self.projection = magnitude, multiplier, projection
        self.share = 0.0  # of the training that is done

    def progress(self, share: float) -> None:
        super().progress(share)
        self.transform, self.share = self.transforms.at(share), share

    def latent(self, weight: Tensor) -> Tensor:
        """What signs are taken of."""
        return self.transform(weight)

    def scale(self, latent: Tensor) -> Tensor | None:
        """One factor per output channel; None: none."""
        return None if self.magnitude is None else self.magnitude(latent)

    def forward(self, weight: Tensor) -> Tensor:
        """What the convolution multiplies with."""
        if not self.is_binary:
            return weight
        latent = self.latent(weight)
        codes = sign(latent, rule=self.rule)
        scale = self.scale(latent if self.multiplier == "function" else latent.detach())
        if scale is None:
            return codes
        factor = scale.view(-1, *[1] * (codes.dim() - 1))
        if self.multiplier == "none" and torch.is_grad_enabled() and codes.requires_grad:
            scaled: Tensor = _Unseen.apply(codes, factor)  # type: ignore[no-untyped-call]
            return scaled
        return codes * factor

    def bases(self, weight: Tensor) -> list[Weighted] | None:  # noqa: ARG002
        """Codes whose weighted sum is what the convolution multiplies with; None: its codes alone, scaled."""
        return None

    def bits(self) -> int:
        """Of each weight in a file."""
        return 1

    @torch.no_grad()
    def project(self, weight: Tensor) -> None:
        """Puts weights back to where the method wants them, after a step."""
        if self.projection is not None and self.is_binary:
            weight.copy_(self.projection(weight, self.share))

    @property
    def is_plain(self) -> bool:
        """Whether codes are the signs of the weights and nothing else: what trains without real-valued weights."""
        kind = type(self)
        is_own = (kind.latent, kind.scale, kind.forward) == (Signs.latent, Signs.scale, Signs.forward)
        return is_own and self.transforms == Transform() and self.magnitude is None


class MeanScaledSigns(Signs):
    """Each output channel is scaled by the mean magnitude of its weights (XNOR-Net, Bi-Real Net)."""

    def scale(self, latent: Tensor) -> Tensor:
        return filter_mean(latent)


class _Unseen(torch.autograd.Function):
    """A factor that the gradient does not see."""

    generate_vmap_rule = True

    @staticmethod
    def forward(codes: Tensor, factor: Tensor) -> Tensor:
        return codes * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # noqa: ARG004
        return grads[0], None
