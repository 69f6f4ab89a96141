"""Sign: a real number in, one of two values out, and a straight-through gradient.

    forward    1 where x > 0, else `low`    (low is -1, or 0 for an input that follows a ReLU)
    backward   dL/dx = dL/dy where |x| <= bound, else 0

The value at 0 is `low`, not torch.sign's 0: deployment has no third value, and training must be the same function.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError

ActivationMode = Literal["sign", "tanh", "identity"]
DEFAULT_BOUND = 1.2


def _code(x: Tensor, low: float) -> Tensor:
    one, other = (torch.full((), value, dtype=x.dtype, device=x.device) for value in (1.0, low))
    return torch.where(x > 0, one, other)


class _StraightThroughSign(torch.autograd.Function):
    """Keeps one boolean per element for backward, not a copy of x."""

    @staticmethod
    def forward(x: Tensor, low: float, bound: float) -> Tensor:  # noqa: ARG004
        return _code(x, low)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, float], output: Tensor) -> None:  # noqa: ARG004
        x, _, bound = inputs
        ctx.save_for_backward(x.abs() <= bound)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (inside,) = ctx.saved_tensors
        return torch.where(inside, grads[0], 0.0), None, None


def sign(x: Tensor, *, zero_one: bool = False, bound: float = DEFAULT_BOUND) -> Tensor:
    """Binary value of x with the straight-through gradient of this module's docstring."""
    low = 0.0 if zero_one else -1.0
    if torch.is_grad_enabled() and x.requires_grad:
        result: Tensor = _StraightThroughSign.apply(x, low, bound)  # type: ignore[no-untyped-call]
        return result
    return _code(x, low)


class Sign(nn.Module):
    """Binarizes activations: {-1, +1}, or {0, 1} where the input follows a ReLU (`zero_one`).

    `mode` replaces the function for multi-step training: `tanh` (its step 0) or `identity` (a real-valued network).
    """

    def __init__(self, *, zero_one: bool = False, bound: float = DEFAULT_BOUND, mode: ActivationMode = "sign") -> None:
        super().__init__()
        if not bound > 0:
            raise UserError(f"the bound of Sign must be positive, not {bound}")
        self.zero_one = zero_one
        self.bound = bound
        self.mode: ActivationMode = mode

    def forward(self, x: Tensor) -> Tensor:
        if self.mode == "sign":
            return sign(x, zero_one=self.zero_one, bound=self.bound)
        return torch.tanh(x) if self.mode == "tanh" else x

    def extra_repr(self) -> str:
        codes = "{0, 1}" if self.zero_one else "{-1, +1}"
        return f"{codes}, bound={self.bound}" + ("" if self.mode == "sign" else f", mode={self.mode}")
