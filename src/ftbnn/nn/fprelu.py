"""FPReLU: a ReLU whose two slopes are both learned, per channel.

forward    y = right * x where x > 0, else left * x      (both slopes start at 1, the identity, if not asked otherwise)
"""

from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.nn import operators
from ftbnn.nn.backend import backend
from ftbnn.nn.layer import Layer, Packed
from ftbnn.nn.piecewise import Slopes


def _per_channel(slope: Tensor, x: Tensor) -> Tensor:
    return slope.to(x.dtype).view(-1, *[1] * (x.dim() - 2))


def _plain(x: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Operators that run vectorised on a CPU; torch.where, the obvious one, does not."""
    positive = x.clamp_min(0)
    return torch.addcmul(positive * _per_channel(right, x), x - positive, _per_channel(left, x))


def _fake(x: Tensor, *_: Tensor) -> Tensor:
    return torch.empty_like(x)


class _FPReLU(torch.autograd.Function):
    """Keeps x alone."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, left: Tensor, right: Tensor) -> Tensor:
        if not operators.is_seen():
            return _plain(x, left, right)
        with operators.below_autograd():
            result: Tensor = _OPERATOR(x, left, right)
            return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, left, right = ctx.saved_tensors
        dims = [0, *range(2, x.dim())]
        rightward = torch.ops.aten.threshold_backward(grads[0], x, 0)  # the gradient where x > 0, else 0
        leftward = grads[0] - rightward
        left_grad = (leftward * x).sum(dims, dtype=left.dtype)
        right_grad = (rightward * x).sum(dims, dtype=right.dtype)
        x_grad = torch.addcmul(rightward * _per_channel(right, x), leftward, _per_channel(left, x))
        return x_grad, left_grad, right_grad


_OPERATOR = operators.define(
    "fprelu(Tensor x, Tensor left, Tensor right) -> Tensor", plain=_plain, fake=_fake, gradient=_FPReLU.apply
)


class FPReLU(Layer):
    """Fully parametric ReLU over (N, channels, ...); `left` and `right` are where the slopes start."""

    def __init__(self, channels: int, *, left: float = 1.0, right: float = 1.0) -> None:
        super().__init__()
        self.channels = channels
        self.left = nn.Parameter(torch.full((channels,), left))
        self.right = nn.Parameter(torch.full((channels,), right))

    def forward(self, x: Tensor) -> Tensor:
        if backend() == "plain":
            return torch.where(x > 0, _per_channel(self.right, x) * x, _per_channel(self.left, x) * x)
        run = _OPERATOR if operators.is_seen() else _FPReLU.apply
        result: Tensor = run(x, self.left, self.right)
        return result

    def slopes(self) -> Slopes:
        return Slopes(left=self.left, right=self.right)

    @torch.no_grad()
    def adopt(self, packed: Packed) -> None:
        if packed.left is not None and packed.right is not None:
            self.left.copy_(packed.left)
            self.right.copy_(packed.right)

    def records(self) -> dict[str, float]:
        return {
            f"{side}_{what}": getattr(slope, what)().item()
            for side, slope in (("left", self.left.detach()), ("right", self.right.detach()))
            for what in ("mean", "min", "max")
        }

    def extra_repr(self) -> str:
        return f"{self.channels}"
