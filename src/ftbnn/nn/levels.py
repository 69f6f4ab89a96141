"""Inputs of a few levels: each is a sum of codes {0, 1}, so that their convolution is a sum of binary ones.

forward    q = sum over k of steps[k] * [x > thresholds[k]]
backward   dL/dx = dL/dq where low < x <= high, else 0
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ftbnn.nn.rules import NO_RULE
from ftbnn.nn.sign import Sign, sign


class _Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, thresholds: Tensor, steps: Tensor, low: float, high: float) -> Tensor:  # noqa: PLR0917
        ctx.save_for_backward(((x > low) & (x <= high)).view(torch.int8))
        return staircase(x, thresholds, steps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0] * ctx.saved_tensors[0], None, None, None, None


def staircase(x: Tensor, thresholds: Tensor, steps: Tensor) -> Tensor:
    """The sum of all steps whose threshold x is above."""
    q = torch.zeros_like(x)
    for threshold, step in zip(thresholds.unbind(), steps.unbind(), strict=True):
        q = q + step * (x > threshold)
    return q


class Levels(Sign):
    """A quantiser of inputs with these thresholds and steps; its gradient passes between `low` and `high`."""

    def __init__(self, thresholds: Sequence[float], steps: Sequence[float], *, low: float, high: float) -> None:
        super().__init__(zero_one=True, rule=NO_RULE)
        self.register_buffer("thresholds", torch.tensor(thresholds))
        self.register_buffer("steps", torch.tensor(steps))
        self.thresholds: Tensor
        self.steps: Tensor
        self.low, self.high = low, high

    def ends(self) -> tuple[float, float]:
        """Between which gradients pass."""
        return self.low, self.high

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_binary:
            return super().forward(x)
        if torch.is_grad_enabled() and x.requires_grad:
            out: Tensor = _Quantise.apply(x, self.thresholds, self.steps, *self.ends())  # type: ignore[no-untyped-call]
            return out
        return staircase(x, self.thresholds, self.steps)

    def planes(self, x: Tensor) -> list[tuple[float | Tensor, Tensor]]:
        channels = x.shape[1]
        return [
            (step, sign(x, zero_one=True, rule=NO_RULE, shift=-threshold.expand(channels)))
            for threshold, step in zip(self.thresholds.unbind(), self.steps.unbind(), strict=True)
        ]

    def extra_repr(self) -> str:
        return f"{len(self.steps) + 1} levels, gradient between {self.low:g} and {self.high:g}"
