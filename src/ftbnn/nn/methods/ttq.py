"""TTQ (Zhu et al. 2017): weights of three values, +p, 0 and -n, on real-valued inputs.

forward    +p where w > d, -n where w < -d, else 0;  d = 0.05 of the layer's largest |w|; p and n are learned
backward   of w: the gradient times p, 1 or n; of p and n: the sums over their weights, n's with the sign turned
"""

from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.nn.method import Method
from ftbnn.nn.rules import NO_RULE
from ftbnn.nn.signs import Signs

SHARE = 0.05


class _Ternary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, up: Tensor, down: Tensor) -> Tensor:
        edge = SHARE * weight.abs().max()
        above, below = (weight > edge).to(weight.dtype), (weight < -edge).to(weight.dtype)
        ctx.save_for_backward(above, below, up, down)
        return above * up - below * down

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        above, below, up, down = ctx.saved_tensors
        grad = grads[0]
        factor = above * up + below * down + (1 - above - below)
        return grad * factor, (grad * above).sum().view(1), -(grad * below).sum().view(1)


class TernaryWeights(Signs):
    """Three values for the layer."""

    def __init__(self) -> None:
        super().__init__(NO_RULE)
        self.up = nn.Parameter(torch.ones(1))
        self.down = nn.Parameter(torch.ones(1))

    def forward(self, weight: Tensor) -> Tensor:
        if not self.is_binary:
            return weight
        out: Tensor = _Ternary.apply(weight, self.up, self.down)  # type: ignore[no-untyped-call]
        return out

    def bits(self) -> int:
        return 32  # a file has no words for three values


TTQ = Method(
    "TTQ: weights of three learned values on real-valued inputs",
    input=None,
    signs=TernaryWeights,
    act="relu",
    stem_act="relu",
    bits=(2, 32),
    deploys="32 bits a weight; products are real-valued work",
    published="ImageNet R18 66.6 (paper, by the FTBNN paper); CIFAR-10 R20 91.1 (the authors' code)",
    doubt="the published ResNet-18 starts from a real-valued network",
)
