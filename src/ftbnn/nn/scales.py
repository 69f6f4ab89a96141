"""Scales that a binary convolution's result is multiplied with, beyond one constant per channel: scale(result, x).

learned per channel    result * alpha[o]                                (folds into what follows)
learned map            result * alpha[o] * rows[h] * columns[w]         (for images of one size)
input map              result * K[h, w], K = box filter of mean |x| over channels
gate                   result * size * sigmoid(W2 relu(W1 mean(x)))     (x before its sign)
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn.layer import Layer, Packed


class ChannelScale(Layer):
    """A learned number per output channel."""

    def __init__(self, channels: int, first: float = 1.0) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((channels,), first))

    def of_channels(self) -> Tensor:
        """What output channels are multiplied with, and nothing else is done: a native block does it on the way."""
        return self.alpha

    def forward(self, out: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return out * self.alpha.view(-1, 1, 1)

    @torch.no_grad()
    def adopt(self, packed: Packed) -> None:
        """What is behind it, a BatchNorm or nothing, keeps the rest of the operator's scale."""
        alpha = torch.where(packed.scale == 0, 1.0, packed.scale)
        self.alpha.copy_(alpha)
        packed.scale = packed.scale / alpha


class MapScale(ChannelScale):
    """A learned number per channel, row and column: alpha[o] * rows[h] * columns[w] (XNOR-Net++, case 4).

    It is for maps of one size, which `settle` finds out before training.
    """

    def __init__(self, channels: int, first: float = 1.0) -> None:
        super().__init__(channels, first)
        self.size: tuple[int, int] | None = None
        self.register_parameter("rows", None)
        self.register_parameter("columns", None)

    def take_size(self, height: int, width: int) -> None:
        self.size = (height, width)
        self.rows = nn.Parameter(self.alpha.new_ones(height))
        self.columns = nn.Parameter(self.alpha.new_ones(width))

    def forward(self, out: Tensor, x: Tensor) -> Tensor:
        size = (out.shape[2], out.shape[3])
        if self.size is None:
            if not _settling:
                raise UserError(
                    "scales of rows and columns need to know the images: build(..., image_size=32), or "
                    "ftbnn.nn.settle(network, (3, 32, 32))"
                )
            self.take_size(*size)
        if self.size != size:
            assert self.size is not None
            was, now = ("x".join(map(str, given)) for given in (self.size, size))
            raise UserError(f"its scales are learned for maps of {was}, not {now}: it works at one image size alone")
        places = self.rows.view(-1, 1) * self.columns
        if self.training:  # one product of maps in place of two, two of gradients in place of four
            return out * (self.alpha.view(-1, 1, 1) * places)
        return super().forward(out, x) * places


class InputScale(Layer):
    """The mean magnitude of what each position's window reads (XNOR-Net's K), zeros where it hangs out."""

    def __init__(self, channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.shape, self.stride = (1, channels, kernel, kernel), stride

    def forward(self, out: Tensor, x: Tensor) -> Tensor:
        taps = self.shape[1] * self.shape[2] ** 2
        box = torch.full(self.shape, 1 / taps, dtype=x.dtype, device=x.device)
        return out * F.conv2d(x.abs(), box, None, self.stride, self.shape[2] // 2)


class Gate(Layer):
    """A factor per image and channel, from the input's means (Real-to-Binary); `size` is a constant beside it."""

    def __init__(self, in_channels: int, out_channels: int, reduction: int = 8, *, size: float = 1.0) -> None:
        super().__init__()
        self.size = size
        hidden = max(1, in_channels // reduction)
        self.squeeze = nn.Linear(in_channels, hidden, bias=False)
        self.excite = nn.Linear(hidden, out_channels, bias=False)

    def forward(self, out: Tensor, x: Tensor) -> Tensor:
        means = x.mean((2, 3))
        gate = self.size * torch.sigmoid(self.excite(F.relu(self.squeeze(means))))
        return out * gate[:, :, None, None]


_settling: list[bool] = []


@torch.no_grad()
def settle(network: nn.Module, image: Sequence[int]) -> nn.Module:
    """Runs the network once on an image of (channels, height, width): layers that are for one size take theirs."""
    if not any(isinstance(layer, MapScale) and layer.size is None for layer in network.modules()):
        return network
    like = next(network.parameters())
    training = {module: module.training for module in network.modules()}
    _settling.append(True)
    try:
        network.eval()(torch.zeros(1, *image, dtype=like.dtype, device=like.device))
    finally:
        _settling.pop()
        for module, was in training.items():
            module.training = was
    return network
