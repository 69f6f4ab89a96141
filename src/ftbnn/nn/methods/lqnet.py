"""LQ-Net (Zhang et al. 2018), 1 bit for weights and 2 for inputs: levels that are learned, but not by gradients.

inputs    levels 0, v0, v1, v0 + v1 of a basis (v0, v1) of the layer, thresholds half-way between
basis     each step the least squares of what the layer reads, as a moving average (0.9)
weights   the mean |w| of a filter times signs: the least squares of one bit
"""

import torch
from torch import Tensor

from ftbnn.nn.levels import Levels
from ftbnn.nn.method import Method
from ftbnn.nn.rules import NO_RULE
from ftbnn.nn.signs import Signs
from ftbnn.nn.transforms import filter_mean

KEPT = 0.9  # of the basis from step to step
FIRST = 0.6745 * 2 / 3  # the basis starts at this times (1, 2)
RIDGE = 1e-6


class LearnedLevels(Levels):
    """Four levels, sums of two basis numbers."""

    def __init__(self) -> None:
        super().__init__((0.0,) * 3, (0.0,) * 3, low=0.0, high=0.0)
        self.register_buffer("basis", torch.tensor([FIRST, 2 * FIRST]))
        self.basis: Tensor
        self._place()

    def _place(self) -> None:
        """Thresholds and steps of the basis."""
        low, high = self.basis.sort().values
        levels = torch.stack([low, high, low + high])
        before = torch.cat([torch.zeros_like(levels[:1]), levels[:-1]])
        self.steps.copy_(levels - before)
        self.thresholds.copy_((levels + before) / 2)

    def ends(self) -> tuple[float, float]:
        return 0.0, float(self.basis.sum())

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.is_binary:
            self._learn(x.detach())
        return super().forward(x)

    @torch.no_grad()
    def _learn(self, x: Tensor) -> None:
        """The basis that fits what is read, given the levels it is rounded to now: v0 has a part in the first and the
        third step, v1 in the second and the third."""
        self.basis.copy_(self.basis.sort().values)
        counts = torch.stack([(x > threshold).sum() for threshold in self.thresholds]).to(x.dtype)
        over = torch.stack([(x - threshold).clamp_min(0).sum() for threshold in self.thresholds])
        sums = over + self.thresholds * counts  # of all that is above a threshold
        low, high, both = counts[0] - counts[1] + counts[2], counts[1], counts[2]
        square = torch.stack([low, both, both, high]).view(2, 2) / x.numel()
        square = square + RIDGE * torch.eye(2, dtype=x.dtype, device=x.device)
        read = torch.stack([sums[0] - sums[1] + sums[2], sums[1]]) / x.numel()
        fitted = torch.linalg.solve(square, read + RIDGE * self.basis)
        self.basis.mul_(KEPT).add_(fitted.clamp_min(RIDGE), alpha=1 - KEPT)
        self._place()


LQNET = Method(
    "LQ-Net: inputs of four levels that follow what is read",
    input=lambda _, __: LearnedLevels(),
    signs=lambda: Signs(NO_RULE, magnitude=filter_mean),
    order="BCA+",
    bits=(1, 2),
    deploys="three binary convolutions, one for each step of the levels",
    published="ImageNet R18 62.6 (paper); CIFAR-10 R20 88.4, VGG-small 93.4 (not certain)",
    doubt="the magnitude of weights follows at once, not as a moving average",
)
