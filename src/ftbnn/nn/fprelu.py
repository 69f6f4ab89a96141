"""FPReLU: a ReLU whose two slopes are both learned, per channel.

forward    y = right * x where x > 0, else left * x      (both slopes start at 1: the identity)
"""

from typing import Any

import torch
from torch import Tensor, nn


def _per_channel(slope: Tensor, x: Tensor) -> Tensor:
    return slope.to(x.dtype).view(-1, *[1] * (x.dim() - 2))


class _FPReLUFunction(torch.autograd.Function):
    """Keeps x alone. Written with operators that run vectorised on a CPU; torch.where, the obvious one, does not."""

    @staticmethod
    def forward(x: Tensor, left: Tensor, right: Tensor) -> Tensor:
        positive = x.clamp_min(0)
        return torch.addcmul(positive * _per_channel(right, x), x - positive, _per_channel(left, x))

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


class FPReLU(nn.Module):
    """Fully parametric ReLU over (N, channels, ...)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.left = nn.Parameter(torch.ones(channels))
        self.right = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = _FPReLUFunction.apply(x, self.left, self.right)  # type: ignore[no-untyped-call]
        return result

    def extra_repr(self) -> str:
        return f"{self.channels}"
