"""BConv: a convolution with weights in {-1, +1}, no bias and no scaling factor.

forward    conv(x, sign(w)), true zero padding: a padded tap contributes 0
backward   dL/dw passes where |w| <= bound, else 0
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn.sign import DEFAULT_BOUND, sign

WeightMode = Literal["binary", "real"]
Backend = Literal["torch", "native", "native8"]
Pair = int | tuple[int, int]

INIT_GAIN = 2.0  # Xavier-normal, as in the paper's appendix


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


@dataclass(frozen=True)
class Part:
    """A run of equal groups: the channels it reads and writes, and the name of its weight."""

    weight: str
    groups: int
    inputs: slice
    outputs: slice


def split_groups(in_channels: int, out_channels: int, groups: int) -> tuple[Part, ...]:
    """Channels over groups: floor(c / groups) each, in and out; the last group takes the remainder too.

    One part if that comes out even; else the first groups - 1 groups and, on its own, the last.
    """
    inside, outside = in_channels // groups, out_channels // groups
    if inside * groups == in_channels and outside * groups == out_channels:
        return (Part("weight", groups, slice(0, in_channels), slice(0, out_channels)),)
    in_head, out_head = inside * (groups - 1), outside * (groups - 1)
    return (
        Part("weight", groups - 1, slice(0, in_head), slice(0, out_head)),
        Part("tail", 1, slice(in_head, in_channels), slice(out_head, out_channels)),
    )


class BConv(nn.Module):
    """Binary convolution over (N, in_channels, H, W), in any number of groups up to the number of channels.

    `weight` holds the real-valued proxy weights as nn.Conv2d would; where the groups are uneven, the last group's
    stand in `tail`. `mode="real"` convolves with the proxies themselves (multi-step training).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        kernel_size: Pair = 3,
        stride: Pair = 1,
        padding: Pair | None = None,
        groups: int = 1,
        bound: float = DEFAULT_BOUND,
        mode: WeightMode = "binary",
    ) -> None:
        super().__init__()
        if min(in_channels, out_channels) < 1:
            raise UserError(f"a binary convolution needs channels, not {in_channels} -> {out_channels}")
        if not 1 <= groups <= min(in_channels, out_channels):
            raise UserError(
                f"groups={groups} does not fit a binary convolution of {in_channels} -> {out_channels} channels; "
                f"it must be 1 to {min(in_channels, out_channels)}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _pair(kernel_size)
        self.stride = _pair(stride)
        self.padding = (self.kernel_size[0] // 2, self.kernel_size[1] // 2) if padding is None else _pair(padding)
        self.groups = groups
        self.bound = bound
        self.mode: WeightMode = mode
        self.backend: Backend = "torch"
        self.parts = split_groups(in_channels, out_channels, groups)
        for part in self.parts:
            inputs = (part.inputs.stop - part.inputs.start) // part.groups
            outputs = part.outputs.stop - part.outputs.start
            setattr(self, part.weight, nn.Parameter(torch.empty(outputs, inputs, *self.kernel_size)))
        if len(self.parts) == 1:
            self.register_parameter("tail", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        taps = math.prod(self.kernel_size)
        for part in self.parts:
            weight = self.proxies(part)
            fan_in, fan_out = weight.shape[1] * taps, self.out_channels * taps
            nn.init.normal_(weight, std=INIT_GAIN * math.sqrt(2.0 / (fan_in + fan_out)))

    def proxies(self, part: Part) -> Tensor:
        """The real-valued weights of one part (not `get_parameter`: torch.func puts plain tensors in their place)."""
        weight: Tensor = getattr(self, part.weight)
        return weight

    def effective_weight(self, weight: Tensor) -> Tensor:
        """What the convolution multiplies with: the signs of the proxies, or in real mode the proxies."""
        return sign(weight, bound=self.bound) if self.mode == "binary" else weight

    def forward(self, x: Tensor) -> Tensor:
        outputs = [
            F.conv2d(
                x if len(self.parts) == 1 else x[:, part.inputs],
                self.effective_weight(self.proxies(part)),
                stride=self.stride,
                padding=self.padding,
                groups=part.groups,
            )
            for part in self.parts
        ]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)

    def dense_weight(self) -> Tensor:
        """The effective weight as one (out, in, kh, kw) tensor, zero outside the groups' blocks."""
        weights = [self.effective_weight(self.proxies(part)) for part in self.parts]
        dense = weights[0].new_zeros(self.out_channels, self.in_channels, *self.kernel_size)
        for part, weight in zip(self.parts, weights, strict=True):
            outputs, inputs = weight.shape[0] // part.groups, weight.shape[1]
            for group in range(part.groups):
                rows = part.outputs.start + group * outputs
                columns = part.inputs.start + group * inputs
                block = weight[group * outputs : (group + 1) * outputs]
                dense[rows : rows + outputs, columns : columns + inputs] = block
        return dense

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        return (
            f"{text}, padding={self.padding}, groups={self.groups}"
            + (" (uneven)" if len(self.parts) > 1 else "")
            + ("" if self.mode == "binary" else f", mode={self.mode}")
        )


class ScaledBConv(BConv):
    """Bi-Real Net's convolution: each output channel's signs are scaled by the mean magnitude of its proxies.

    The factor is a constant to the gradient, as in Bi-Real Net; FTBNN leaves the scale to BatchNorm instead.
    """

    def effective_weight(self, weight: Tensor) -> Tensor:
        if self.mode == "real":
            return weight
        scale = weight.detach().abs().mean(dim=(1, 2, 3), keepdim=True)
        return sign(weight, bound=self.bound) * scale
