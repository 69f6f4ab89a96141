"""ResNet-20 as the CIFAR literature of binary networks has it: 16 - 32 - 64 channels, six convolutions a stage.

One shortcut per convolution (IR-Net's and RBNN's better form). Where a stage begins, the shortcut is the average of
2x2 pixels with zeros for the new channels (ReCU's form): no real-valued convolution beside the first.
"""

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn import Act, BasicBlock, Method, Shape, method_named
from ftbnn.nn.blocks import Ordered
from ftbnn.nn.native import average
from ftbnn.nn.stems import PlainStem

STAGES, BLOCKS = 3, 6


class PaddedReduction(Ordered):
    """c -> 2c at half the size: a stride 2 convolution beside an average pool and zeros."""

    def __init__(self, in_channels: int, *, act: Act, follows_relu: bool, method: str | Method) -> None:
        shape = Shape(in_channels, 2 * in_channels, stride=2, follows_relu=follows_relu)
        super().__init__(shape, act=act, method=method)
        self.shortcut = nn.AvgPool2d(2, 2, ceil_mode=True)
        self.before = in_channels // 2

    def forward(self, x: Tensor) -> Tensor:
        small = average(x, self.shortcut)
        nothing = 0 * small
        padded = torch.cat([nothing[:, : self.before], small, nothing[:, self.before :]], 1)
        return self.run(x, shortcut=padded)


class ResNet20(nn.Module):
    """A real-valued 3x3 stem, three stages of six one-convolution blocks, global average pool, real classifier."""

    def __init__(
        self, *, width: int = 16, classes: int = 10, in_channels: int = 3, method: str | Method = "ftbnn"
    ) -> None:
        super().__init__()
        if min(width, classes, in_channels) < 1:
            raise UserError(f"width={width}, classes={classes} and in_channels={in_channels} must be 1 or more")
        way = method_named(method)
        self.stem = PlainStem(in_channels, width, stem="small", act=way.stem_act)
        channels, previous = width, way.stem_act
        for number in range(1, STAGES + 1):
            stage = nn.Sequential()
            for index in range(BLOCKS):
                act = way.end_act if index == BLOCKS - 1 else way.act
                follows_relu = previous == "relu"
                if index == 0 and number > 1:
                    stage.append(PaddedReduction(channels, act=act, follows_relu=follows_relu, method=way))
                    channels *= 2
                else:
                    stage.append(BasicBlock(channels, act=act, follows_relu=follows_relu, method=way))
                previous = act
            self.add_module(f"stage{number}", stage)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for number in range(1, STAGES + 1):
            x = self.get_submodule(f"stage{number}")(x)
        logits: Tensor = self.fc(self.pool(x).flatten(1))
        return logits
