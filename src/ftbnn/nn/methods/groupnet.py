"""Group-Net (Zhuang et al. 2019): several binary branches in the place of one convolution.

    y = x + mean over branches of BatchNorm(ReLU(conv(x))),   weights: the layer's mean |w| times signs

Published networks let each branch read a learned mixture of its own last result and the mean of all; here, as in their
first stage, all read the mean.
"""

from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn.bconv import BConv
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.rules import NO_RULE, Polynomial
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs
from ftbnn.nn.transforms import layer_mean


class Branch(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        signs = Signs(NO_RULE, magnitude=layer_mean)
        sizes = (shape.in_channels, shape.out_channels)
        self.conv = BConv(*sizes, **shape.window, input=Sign(rule=Polynomial()), signs=signs)
        self.act = nn.ReLU()
        self.norm = nn.BatchNorm2d(shape.out_channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.act(self.conv(x)))
        return out


class Branches(nn.Module):
    """The mean of so many branches."""

    def __init__(self, shape: Shape, count: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(Branch(shape) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        first, *others = (branch(x) for branch in self.branches)
        total: Tensor = sum(others, first)
        return total / len(self.branches)


def branches(count: int) -> Method:
    """The row with so many branches."""
    if not 1 <= count <= 16:
        raise UserError(f"group-net has 1 to 16 branches, not {count}")
    return Method(
        f"Group-Net: the mean of {count} binary branches",
        conv=lambda shape: Branches(shape, count),
        order="C+A",
        bits=(1, 1),
        special="group-net(K) has K branches, each as dear as one network",
        deploys=f"{count} binary convolutions with an epilogue each",
        published="ImageNet R18 66.3 with 4 branches, 67.0 with 5 (not certain)",
        doubt="without the learned mixture between branches (a re-run: 63.9 with 5); which codes were used is open",
    )
