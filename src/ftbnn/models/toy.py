"""The MNIST toy network of the paper's figure 2: a real stem, two basic blocks, a classifier.

The paper leaves its sizes open. Ours: 16 channels at half resolution, features averaged to 7x7 before the
classifier, so that `linear`, whose every step is linear, is no worse than a linear classifier on the pixels.
"""

from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn import Act, BasicBlock, set_mode


class ToyNet(nn.Module):
    """Conv 3x3 stride 2 -> BatchNorm -> two BasicBlocks -> average to 7x7 -> FC. `real` makes the blocks linear."""

    def __init__(
        self,
        *,
        act: Act,
        real: bool = False,
        width: int = 16,
        classes: int = 10,
        in_channels: int = 1,
    ) -> None:
        super().__init__()
        if min(width, classes, in_channels) < 1:
            raise UserError(f"width={width}, classes={classes} and in_channels={in_channels} must be 1 or more")
        self.stem = nn.Sequential(nn.Conv2d(in_channels, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width))
        self.block1 = BasicBlock(width, act=act, follows_relu=False)
        self.block2 = BasicBlock(width, act=act, follows_relu=act == "relu")
        self.pool = nn.AdaptiveAvgPool2d(7)
        self.fc = nn.Linear(49 * width, classes)
        if real:
            set_mode(self, activations="identity", weights="real")

    def features(self, x: Tensor) -> Tensor:
        """What the classifier sees, (N, 49 * width): the space the paper's figure draws."""
        out: Tensor = self.pool(self.block2(self.block1(self.stem(x)))).flatten(1)
        return out

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(x))
        return logits
