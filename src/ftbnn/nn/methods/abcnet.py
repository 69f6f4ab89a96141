"""ABC-Net (Lin et al. 2017): weights and inputs as weighted sums of several codes.

weights   B_m = sign(w - mean + u_m std) of the layer, u_m from -1 to 1; their factors are the least squares of w
inputs    A_n = +1 where x + v_n > 0.5, else -1, gradient 1 where 0 <= x + v_n <= 1; v_n and their factors are learned
result    sum over m and n of alpha_m beta_n conv(A_n, B_m)
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn import native
from ftbnn.nn.method import Method
from ftbnn.nn.rules import NO_RULE, Window
from ftbnn.nn.sign import Sign, sign
from ftbnn.nn.signs import Signs, Weighted

RIDGE = 1e-4  # bases become nearly the same when there are many
SPREAD = 0.8  # of the first thresholds; the paper does not say


class WeightBases(Signs):
    """So many codes of the weights, with one factor each for the layer."""

    def __init__(self, count: int) -> None:
        super().__init__(NO_RULE)
        self.count = count

    def _codes(self, weight: Tensor) -> Iterator[Tensor]:
        fixed = weight.detach()
        mean, deviation = fixed.mean(), fixed.std(correction=0)
        for u in [2 * m / (self.count - 1) - 1 for m in range(self.count)] if self.count > 1 else [0.0]:
            yield sign(weight + (u * deviation - mean), rule=self.rule)

    def _factors(self, weight: Tensor, codes: list[Tensor]) -> Tensor:
        columns = torch.stack([code.detach().flatten() for code in codes], 1)
        square = columns.T @ columns / len(columns)
        square = square + RIDGE * torch.eye(self.count, dtype=square.dtype, device=square.device)
        found: Tensor = torch.linalg.solve(square, columns.T @ weight.detach().flatten() / len(columns))
        return found

    def forward(self, weight: Tensor) -> Tensor:
        if not self.is_binary:
            return weight
        codes = list(self._codes(weight))
        factors = self._factors(weight, codes)
        return sum((factor * code for factor, code in zip(factors[1:], codes[1:], strict=True)), factors[0] * codes[0])

    def bases(self, weight: Tensor) -> list[Weighted]:
        codes = list(self._codes(weight))
        factors = self._factors(weight, codes)
        return [(factor.expand(len(weight)), code) for factor, code in zip(factors, codes, strict=True)]

    def bits(self) -> int:
        return self.count


class InputBases(Sign):
    """So many codes of the input, each with a learned threshold and factor for the layer."""

    def __init__(self, count: int) -> None:
        super().__init__(rule=Window(0.5))
        thresholds = torch.linspace(-SPREAD, SPREAD, count) if count > 1 else torch.zeros(1)
        self.shifts = nn.Parameter(0.5 - thresholds)
        self.factors = nn.Parameter(torch.full((count,), 1 / count))

    def planes(self, x: Tensor) -> list[tuple[float | Tensor, Tensor]]:
        return [
            (factor, sign(x, rule=self.rule, shift=(shift - 0.5).expand(x.shape[1])))
            for factor, shift in zip(self.factors.unbind(), self.shifts.unbind(), strict=True)
        ]

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_binary:
            return super().forward(x)
        if native.can_climb(x, self.shifts, len(self.shifts)):
            return self._climb(x)
        first, *others = (factor * codes for factor, codes in self.planes(x))
        return sum(others, first)

    def _climb(self, x: Tensor) -> Tensor:
        """The same as steps of twice a factor, from minus all factors up."""
        lows = torch.nextafter(-self.shifts.detach(), torch.full_like(self.shifts, -torch.inf))  # included, too
        passes = native.Passes(lows, 1 - self.shifts.detach(), self.factors)
        return native.stairs(x, 0.5 - self.shifts, 2 * self.factors, passes, first=-self.factors.sum())


def bases(weights: int, inputs: int) -> Method:
    """The row with so many bases of weights and inputs."""
    if not (1 <= weights <= 8 and 1 <= inputs <= 8):
        raise UserError(f"abc has 1 to 8 bases of weights and of inputs, not {weights} and {inputs}")
    return Method(
        f"ABC-Net: {weights} bases of weights, {inputs} of inputs",
        input=lambda _, __: InputBases(inputs),
        signs=lambda: WeightBases(weights),
        order="BCA+",
        bits=(weights, inputs),
        special="abc(M,N) has M bases of weights and N of inputs",
        deploys=f"{weights * inputs} binary convolutions",
        published="ImageNet R18 65.0 with 5/5, 62.5 with 5/3, 42.7 with 1/1 (paper)",
        doubt="optimizer and first thresholds are not public; the published run starts from a real-valued network",
    )
