"""Signs: how the real-valued weights of a binary convolution become codes, and what scales each output channel.

    weights multiply as   scale[o] * sign(latent),   latent a function of the weights that deployment never sees

The plain form is the paper's: latent is the weight itself, and no scale, which BatchNorm would absorb.
"""

from typing import Literal

from torch import Tensor

from ftbnn.nn.binarizer import Binarizer
from ftbnn.nn.rules import DEFAULT_BOUND, Rule, Window
from ftbnn.nn.sign import sign

WeightMode = Literal["binary", "real"]
WEIGHT_MODES: tuple[WeightMode, ...] = ("binary", "real")


class Signs(Binarizer):
    """(out, in, kh, kw) weights to codes in {-1, +1}. `mode="real"` leaves them as they are (multi-step training)."""

    role = "weights"
    modes = WEIGHT_MODES

    def __init__(self, rule: Rule | None = None, *, bound: float = DEFAULT_BOUND, mode: WeightMode = "binary") -> None:
        super().__init__(rule or Window(bound), mode)

    def latent(self, weight: Tensor) -> Tensor:
        """What signs are taken of."""
        return weight

    def scale(self, latent: Tensor) -> Tensor | None:  # noqa: ARG002
        """One factor per output channel, a constant to the gradient; None: none."""
        return None

    def forward(self, weight: Tensor) -> Tensor:
        """What the convolution multiplies with."""
        if not self.is_binary:
            return weight
        latent = self.latent(weight)
        codes = sign(latent, rule=self.rule)
        scale = self.scale(latent.detach())
        return codes if scale is None else codes * scale.view(-1, *[1] * (codes.dim() - 1))


class MeanScaledSigns(Signs):
    """Each output channel is scaled by the mean magnitude of its weights (XNOR-Net, Bi-Real Net)."""

    def scale(self, latent: Tensor) -> Tensor:
        return latent.abs().mean(dim=(1, 2, 3))
