"""BinaryDuo (Kim et al. 2020): trained with inputs of three levels, which are then taken apart into binary ones.

coupled     inputs 0, 1/2, 1 with thresholds 1/4 and 3/4; weights are signs times the layer's mean magnitude
decoupled   each input twice, as codes {0, 1} with thresholds 1/4 and 3/4 that are learned; each copy has weights of its
            own, at first halves of the coupled ones: the same function, with twice the weights to go on from

In the paper all that runs between blocks is doubled too; here shortcuts stay as wide as they were.
"""

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn.bconv import BConv
from ftbnn.nn.levels import Levels
from ftbnn.nn.method import Method
from ftbnn.nn.rules import NO_RULE, Window
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs
from ftbnn.nn.transforms import layer_mean

LOW, HIGH = 0.25, 0.75


def _signs() -> Signs:
    return Signs(NO_RULE, magnitude=layer_mean)


class ThreeLevels(Levels):
    """0, 1/2 and 1."""

    def __init__(self) -> None:
        super().__init__((LOW, HIGH), (0.5, 0.5), low=0.0, high=1.0)


class TwoThresholds(Sign):
    """Codes of inputs that stand there twice, one beside the other, each with a learned threshold."""

    def __init__(self, channels: int) -> None:
        super().__init__(zero_one=True, rule=Window(0.5))  # as wide as the coupled one's, around each threshold
        self.thresholds = nn.Parameter(torch.tensor([LOW, HIGH]).repeat(channels))

    def shift(self) -> Tensor:
        return -self.thresholds


class Decoupled(nn.Module):
    """A binary convolution that reads every channel twice."""

    def __init__(self, coupled: BConv) -> None:
        super().__init__()
        if len(coupled.parts) > 1:
            raise UserError("a convolution in uneven groups cannot be decoupled: choose widths that groups divide")
        channels = coupled.in_channels
        self.conv = BConv(
            2 * channels,
            coupled.out_channels,
            coupled.kernel_size,
            coupled.stride,
            coupled.padding,
            groups=coupled.groups,
            input=TwoThresholds(channels),
            signs=_signs(),
        )
        with torch.no_grad():
            halves = coupled.proxies(coupled.parts[0]).repeat_interleave(2, 1) / 2
            self.conv.proxies(self.conv.parts[0]).copy_(halves)

    def forward(self, x: Tensor) -> Tensor:
        n, channels, h, w = x.shape
        twice = x.unsqueeze(2).expand(n, channels, 2, h, w).reshape(n, 2 * channels, h, w)
        out: Tensor = self.conv(twice)
        return out


def decouple(network: nn.Module) -> int:
    """Takes every convolution with inputs of three levels apart, in place, and returns how many there were."""
    found = [
        (path, module)
        for path, module in network.named_modules()
        if isinstance(module, BConv) and isinstance(module.input, ThreeLevels)
    ]
    if not found:
        raise UserError('there is nothing to decouple: build the network with method="binaryduo"')
    for path, module in found:
        parent, _, name = path.rpartition(".")
        made = Decoupled(module).to(module.proxies(module.parts[0]))
        setattr(network.get_submodule(parent), name, made.train(module.training))
    return len(found)


BINARYDUO = Method(
    "BinaryDuo, coupled: inputs of three levels; ftbnn.nn.decouple makes them binary",
    input=lambda _, __: ThreeLevels(),
    signs=_signs,
    stem_act="relu",
    bits=(1, 2),
    special="ftbnn.nn.decouple(network) keeps the function and doubles the weights that learn on",
    deploys="two binary convolutions; decoupled, one of twice the channels",
    published="ImageNet R18 60.9 (by the FTBNN paper)",
    doubt="optimizer and rates are not public; the published network is narrower by the root of two",
)
