"""After ALQ (Qu et al. 2020), 2 bits for weights and 2 for inputs: weights as a sum of two codes, filter by filter.

weights   a1 sign(w) + a2 sign(w - a1 sign(w)), a1 and a2 the least squares of the filter's weights
inputs    HWGQ's four levels: those of the published 2/2 network are not in the released code

ALQ's own training (codes that turn by a preconditioned step, bits that are pruned by their loss) is left out.
"""

from torch import Tensor

from ftbnn.nn.levels import half_wave
from ftbnn.nn.method import Method
from ftbnn.nn.rules import NO_RULE
from ftbnn.nn.sign import sign
from ftbnn.nn.signs import Signs, Weighted
from ftbnn.nn.transforms import FILTER, filter_mean

RIDGE = 1e-6  # of filters whose two codes agree


class ResidualCodes(Signs):
    """Two codes, the second of what the first leaves."""

    def __init__(self) -> None:
        super().__init__(NO_RULE)

    def bases(self, weight: Tensor) -> list[Weighted]:
        first = sign(weight, rule=self.rule)
        left = weight - filter_mean(weight.detach()).view(-1, 1, 1, 1) * first.detach()
        second = sign(left, rule=self.rule)
        fixed, one, two = weight.detach(), first.detach(), second.detach()
        agree = (one * two).mean(FILTER)
        p, q = (fixed * one).mean(FILTER), (fixed * two).mean(FILTER)
        square = 1 + RIDGE - agree.square()
        return [((p - agree * q) / square, first), ((q - agree * p) / square, second)]

    def forward(self, weight: Tensor) -> Tensor:
        if not self.is_binary:
            return weight
        (a, first), (b, second) = self.bases(weight)
        return a.view(-1, 1, 1, 1) * first + b.view(-1, 1, 1, 1) * second

    def bits(self) -> int:
        return 2


ALQ = Method(
    "an approximation of ALQ: weights of two codes by filter, inputs of four levels",
    input=lambda _, __: half_wave(),
    signs=ResidualCodes,
    order="BCA+",
    bits=(2, 2),
    deploys="six binary convolutions, two codes by three steps",
    published="ImageNet R18 66.4 (ALQ with 2/2 bits, by the FTBNN paper)",
    doubt="without ALQ's optimizer and its bits that adapt; its quantiser of inputs is not public",
)
