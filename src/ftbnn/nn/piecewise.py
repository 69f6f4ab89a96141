"""Non-linearities of two straight pieces, whoever wrote them: what epilogues and native blocks can compute.

y = slope * (x + before) + after,   slope = right where x + before > 0, else left
y = x cut to [-limit, limit]        (Hardtanh: no slopes, nothing added)

A ReLU is a slope of 0, so -inf becomes NaN where torch.relu gives 0: what has overflowed in training is not hidden.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.nn.layer import speaks_for


@dataclass(frozen=True)
class Slopes:
    """One number per channel each; None is a slope of 1, or nothing added."""

    left: Tensor | None = None
    right: Tensor | None = None
    before: Tensor | None = None
    after: Tensor | None = None
    limit: float = math.inf

    def fit(self, channels: int) -> bool:
        return all(t is None or t.shape == (channels,) for t in (self.left, self.right, self.before, self.after))


def _relu(_: nn.ReLU, channels: int) -> Slopes:
    return Slopes(left=torch.zeros(channels, dtype=torch.float32, device="cpu"))


# PyTorch's own; a layer of ours, or of a user, has a method `slopes`.
_OF_TORCH: dict[type[nn.Module], Any] = {
    nn.Identity: lambda _, __: Slopes(),
    nn.ReLU: _relu,
    nn.Hardtanh: lambda act, _: Slopes(limit=act.max_val) if act.min_val == -act.max_val else None,
    nn.PReLU: lambda act, channels: Slopes(left=act.weight) if act.num_parameters == channels else None,
}


def slopes_of(act: nn.Module | None, channels: int) -> Slopes | None:
    """The slopes of a non-linearity (None: the identity), or None if two straight pieces are not what it is."""
    if act is None:
        return Slopes()
    own = getattr(act, "slopes", None) if speaks_for(act, "slopes") else None
    found = own() if callable(own) else _OF_TORCH[type(act)](act, channels) if type(act) in _OF_TORCH else None
    return found if isinstance(found, Slopes) and found.fit(channels) else None
