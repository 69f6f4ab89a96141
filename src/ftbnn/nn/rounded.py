"""A convolution whose weights are rounded to 8 or 16 bits, in training as in deployment: one function everywhere.

unit[o]    max |w[o]| / (2^(bits - 1) - 1), one for each output channel
forward    multiplies with round(w / unit) * unit, ties to even
backward   the gradient of what it multiplied with is that of w: straight through
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn import operators
from ftbnn.nn.backend import backend
from ftbnn.nn.layer import Layer, Packed

BITS = (8, 16)  # that a file and its kernels know
Pair = int | tuple[int, int]


def check_bits(bits: int) -> int:
    if bits not in BITS or isinstance(bits, bool):
        raise UserError(f"weights are rounded to {' or '.join(map(str, BITS))} bits, not {bits!r}")
    return bits


def whole_numbers(weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """The integers that stand for (out, ...) weights, as floats of the same shape, and the unit of each channel."""
    sides = [1] * (weight.dim() - 1)
    unit = weight.flatten(1).abs().amax(1) / (2 ** (bits - 1) - 1)
    unit = unit + (unit == 0).to(unit.dtype)  # a channel of zeros is a multiple of anything
    return (weight / unit.view(-1, *sides)).round(), unit


def _plain(weight: Tensor, bits: int) -> Tensor:
    integers, unit = whole_numbers(weight, bits)
    return integers * unit.view(-1, *[1] * (weight.dim() - 1))


def _fake(weight: Tensor, bits: int) -> Tensor:  # noqa: ARG001
    return torch.empty_like(weight)


class _Rounded(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor, bits: int) -> Tensor:
        if not operators.is_seen():
            return _plain(weight, bits)
        with operators.below_autograd():
            result: Tensor = _OPERATOR(weight, bits)
            return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # noqa: ARG004
        return grads[0], None


_OPERATOR = operators.define(
    "rounded(Tensor weight, int bits) -> Tensor", plain=_plain, fake=_fake, gradient=_Rounded.apply
)


def rounded(weight: Tensor, bits: int) -> Tensor:
    """(out, ...) weights, each a whole multiple of its channel's unit; the gradient goes straight through."""
    if backend() == "plain":
        return weight + (_plain(weight, bits) - weight).detach() if weight.requires_grad else _plain(weight, bits)
    run = _OPERATOR if operators.is_seen() else _Rounded.apply
    result: Tensor = run(weight, bits)
    return result


class RoundedConv2d(Layer, nn.Conv2d):
    """nn.Conv2d with weights of `bits` bits, 8 or 16. `weight` holds those that training changes."""

    def __init__(  # noqa: PLR0917 - nn.Conv2d's order
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        bits: int,
    ) -> None:
        check_bits(bits)
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.bits: int | None = bits

    def multiplied(self) -> Tensor:
        """The weights that it multiplies with."""
        return self.weight if self.bits is None else rounded(self.weight, self.bits)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.multiplied(), self.bias, self.stride, self.padding, self.dilation, self.groups)

    def rounded_parameters(self) -> dict[nn.Parameter, int]:
        if self.bits is None or not isinstance(self.weight, nn.Parameter):
            return {}
        return {self.weight: self.bits}

    @torch.no_grad()
    def freeze(self) -> None:
        self.weight.copy_(self.multiplied())
        self.bits = None

    @torch.no_grad()
    def adopt(self, packed: Packed) -> None:
        if packed.weights is None:
            return
        self.weight.copy_(torch.cat([part.to(self.weight) for part in packed.weights]).view_as(self.weight))
        if self.bias is not None:
            is_scaled = packed.scale != 0  # the scale is that of a BatchNorm behind it
            self.bias.copy_(torch.where(is_scaled, packed.shift / packed.scale, 0))
            packed.shift = torch.where(is_scaled, 0, packed.shift)

    def extra_repr(self) -> str:
        text = super().extra_repr()  # type: ignore[no-untyped-call]
        return f"{text}, bits={self.bits}"
