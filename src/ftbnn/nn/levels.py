"""Inputs of a few levels.

Levels   each is a sum of codes {0, 1}, so that their convolution is a sum of binary ones
         forward    q = sum over k of steps[k] * [x > thresholds[k]]
         backward   dL/dx = dL/dq where low < x <= high, else 0
Even     whole multiples of a unit, for real-valued products
         forward    q = unit * min(count, how many of unit / 2, 3 unit / 2, ... x is greater than)
         backward   dL/dx = dL/dq where 0 <= x <= count * unit, else 0; of a learned unit: that of q with what is
                    rounded off as a constant (LSQ)
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.nn import native, operators
from ftbnn.nn.backend import backend
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
        thresholds, steps = self.thresholds.detach(), self.steps.detach()  # no gradient is made of them
        if native.can_climb(x, thresholds):
            low, high = (thresholds.new_tensor([end]) for end in self.ends())
            return native.stairs(x, thresholds, steps, native.Passes(low, high, torch.ones_like(low)))
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


def half_wave() -> Levels:
    """Four levels for half a Gaussian, the best ones with equal steps (HWGQ)."""
    return Levels((0.0, 0.807, 1.345), (0.538,) * 3, low=0.0, high=1.614)


def _count(x: Tensor, thresholds: Tensor) -> Tensor:
    return torch.searchsorted(thresholds, x.contiguous()).to(x.dtype)


def _fake(x: Tensor, thresholds: Tensor) -> Tensor:  # noqa: ARG001
    return torch.empty_like(x)


_STEPS = operators.define("steps(Tensor x, Tensor thresholds) -> Tensor", plain=_count, fake=_fake)


def steps(x: Tensor, thresholds: Tensor) -> Tensor:
    """How many of the thresholds, which rise, each number is greater than; no gradient. One operator of the file."""
    if backend() == "plain":  # in operators that every format has
        return torch.stack([(x > threshold).to(x.dtype) for threshold in thresholds.unbind()]).sum(0)
    found: Tensor = _STEPS(x, thresholds) if operators.is_seen() else _count(x, thresholds)
    return found


LEAST_UNIT = 1e-6  # of a learned one


class Even(Sign):
    """Levels 0, unit, 2 unit, ... count * unit."""

    def __init__(self, count: int, unit: float, *, is_learned: bool = False) -> None:
        super().__init__(zero_one=True, rule=NO_RULE)
        self.count = count
        if is_learned:
            self.unit = nn.Parameter(torch.tensor([unit]))
        else:
            self.register_buffer("unit", torch.tensor([unit]))

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_binary:
            return super().forward(x)
        unit = self.unit.abs().clamp_min(LEAST_UNIT)
        if torch.is_grad_enabled() and (x.requires_grad or self.unit.requires_grad):
            inside = (x / unit).clamp(0, self.count)
            return (inside + ((inside - 0.5).ceil() - inside).detach()) * unit
        if backend() == "plain":
            return ((x / unit).clamp(0, self.count) - 0.5).ceil() * unit
        places = torch.arange(1, self.count + 1, dtype=x.dtype, device=x.device) - 0.5
        return steps(x, places * unit) * unit

    def extra_repr(self) -> str:
        return f"{self.count + 1} levels"
