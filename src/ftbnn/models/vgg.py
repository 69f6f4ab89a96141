"""VGG-small as the CIFAR literature of binary networks has it: six convolutions and a real-valued classifier.

128 - 128, pool, 256 - 256, pool, 512 - 512, pool, fc. The first convolution is real-valued; each binary one reads what
BatchNorm and non-linearity gave: conv, [pool], norm, act. Pools act on real numbers, before the next sign.
"""

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn import Method, Shape, activation, method_named

WIDTHS = (1, 1, 2, 2, 4, 4)  # times the width; a pool behind every second one


class VGGSmall(nn.Module):
    """(N, in_channels, 32, 32) images, or any side of 8 and more: the classifier reads a mean over 4x4 parts."""

    def __init__(
        self, *, width: int = 128, classes: int = 10, in_channels: int = 3, method: str | Method = "ftbnn"
    ) -> None:
        super().__init__()
        if min(width, classes, in_channels) < 1:
            raise UserError(f"width={width}, classes={classes} and in_channels={in_channels} must be 1 or more")
        way = method_named(method)
        channels, previous = in_channels, way.act
        for number, times in enumerate(WIDTHS):
            out = width * times
            if number == 0:
                conv: nn.Module = nn.Conv2d(channels, out, 3, padding=1, bias=False)
            else:
                conv = way.convolution(Shape(channels, out, follows_relu=previous == "relu"))
            act = way.end_act if number % 2 else way.act
            pool = nn.MaxPool2d(2) if number % 2 else nn.Identity()
            parts = {"conv": conv, "pool": pool, "norm": nn.BatchNorm2d(out), "act": activation(act, out)}
            self.add_module(f"layer{number + 1}", nn.ModuleDict(parts))
            channels, previous = out, act
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.fc = nn.Linear(16 * channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        for number in range(len(WIDTHS)):
            parts = self.get_submodule(f"layer{number + 1}")
            x = parts["act"](parts["norm"](parts["pool"](parts["conv"](x))))  # type: ignore[index]
        logits: Tensor = self.fc(torch.flatten(self.pool(x), 1))
        return logits
