"""Gradient rules: what takes the place of a sign's derivative, which is zero nearly everywhere.

    dL/dx = dL/dcode * d(x),    d the derivative of a function that stands for the sign: its `primitive`

A rule is data: an operator takes its name and numbers, so that every backend computes the same.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ftbnn.errors import UserError, unknown

DEFAULT_BOUND = 1.2  # of the paper's window
OMEGA = 0.1  # of the square wave whose sines FDA-BNN differentiates
RULES: dict[str, "type[Rule]"] = {}


@dataclass(frozen=True)
class Rule(ABC):
    """`name` and the numbers of its fields say which derivative."""

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """A rule of one's own is found by its name; one with another derivative must have another name."""
        if "name" in vars(cls):
            RULES[cls.name] = cls
        elif {"primitive", "derivative", "keep", "apply"} & set(vars(cls)):
            raise TypeError(f"the gradient rule {cls.__name__} needs a name of its own")

    @property
    def numbers(self) -> list[float]:
        return [float(number) for number in vars(self).values()]  # of its fields, in their order

    @abstractmethod
    def primitive(self, x: Tensor) -> Tensor:
        """The function whose derivative this is."""

    @abstractmethod
    def derivative(self, x: Tensor) -> Tensor: ...

    def keep(self, x: Tensor) -> Tensor:
        """What `apply` needs of x in backward."""
        return x

    def apply(self, grad: Tensor, kept: Tensor) -> Tensor:
        """The gradient of x, from the code's."""
        return grad * self.derivative(kept)

    def at(self, share: float) -> "Rule":  # noqa: ARG002
        """The rule when this share of the training is done, 0 to 1: a schedule is a function of it, never a state."""
        return self


@dataclass(frozen=True)
class Window(Rule):
    """1 where |x| <= bound, else 0 (the paper: 1.2)."""

    bound: float = DEFAULT_BOUND
    name = "window"

    def __post_init__(self) -> None:
        if not self.bound > 0:
            raise UserError(f"the bound of a gradient's window must be positive, not {self.bound}")

    def primitive(self, x: Tensor) -> Tensor:
        return x.clamp(-self.bound, self.bound)

    def derivative(self, x: Tensor) -> Tensor:
        return (x.abs() <= self.bound).to(x.dtype)

    def keep(self, x: Tensor) -> Tensor:
        return (x.abs() <= self.bound).view(torch.int8)  # a byte, not a copy of x

    def apply(self, grad: Tensor, kept: Tensor) -> Tensor:
        return grad * kept


@dataclass(frozen=True)
class Polynomial(Rule):
    """2 - 2|x| where that is positive, else 0 (Bi-Real Net)."""

    name = "polynomial"

    def primitive(self, x: Tensor) -> Tensor:
        inside = x.clamp(-1, 1)
        return inside * (2 - inside.abs())

    def derivative(self, x: Tensor) -> Tensor:
        return (2 - 2 * x.abs()).clamp_min(0)


@dataclass(frozen=True)
class Tanh(Rule):
    """k t (1 - tanh(t x)^2)."""

    t: float = 1.0
    k: float = 1.0
    name = "tanh"

    def primitive(self, x: Tensor) -> Tensor:
        return self.k * torch.tanh(self.t * x)

    def derivative(self, x: Tensor) -> Tensor:
        return self.k * self.t * (1 - torch.tanh(self.t * x).square())

    def apply(self, grad: Tensor, kept: Tensor) -> Tensor:
        passed: Tensor = torch.ops.aten.tanh_backward(grad, (self.t * kept).tanh_())  # few passes, and in place
        return passed.mul_(self.k * self.t)


@dataclass(frozen=True)
class EDE(Tanh):
    """From nearly the identity to nearly the sign: t runs from `first` to `last`, evenly in its logarithm (IR-Net)."""

    first: float = 0.1
    last: float = 10.0

    def at(self, share: float) -> Rule:
        t = _between(self.first, self.last, share)
        return Tanh(t, max(1 / t, 1.0))


@dataclass(frozen=True)
class Wedge(Rule):
    """k t (sqrt(2) - t|x|) where that is positive, else 0 (RBNN)."""

    t: float = 1.0
    k: float = 1.0
    name = "wedge"

    def primitive(self, x: Tensor) -> Tensor:
        inside = (self.t * x).clamp(-math.sqrt(2), math.sqrt(2))
        return self.k * inside * (math.sqrt(2) - inside.abs() / 2)

    def derivative(self, x: Tensor) -> Tensor:
        return self.k * self.t * (math.sqrt(2) - self.t * x.abs()).clamp_min(0)


@dataclass(frozen=True)
class SharpeningWedge(Wedge):
    """t from `first` to `last` as with EDE; that of inputs is never wider or higher than at t = 1."""

    first: float = 0.01
    last: float = 10.0
    of_inputs: bool = False

    def at(self, share: float) -> Rule:
        t = _between(self.first, self.last, share)
        return Wedge(max(t, 1.0)) if self.of_inputs else Wedge(t, max(1 / t, 1.0))


@dataclass(frozen=True)
class Fourier(Rule):
    """The derivative of the first `terms` + 1 sines of a square wave of frequency 0.1, where |x| <= 1 (FDA-BNN)."""

    terms: float = 9.0
    name = "fourier"

    def _odd(self, x: Tensor) -> Tensor:
        return torch.arange(1, 2 * round(self.terms) + 2, 2, dtype=x.dtype, device=x.device)

    def primitive(self, x: Tensor) -> Tensor:
        odd = self._odd(x)
        return 4 / math.pi * (torch.sin(OMEGA * x.clamp(-1, 1).unsqueeze(-1) * odd) / odd).sum(-1)

    def derivative(self, x: Tensor) -> Tensor:
        # The sum of cosines in closed form: sin(2 n u) / (2 sin u), which is n at 0.
        n, u = round(self.terms) + 1, OMEGA * x
        total = torch.where(u.abs() < 1e-6, torch.full_like(u, n), torch.sin(2 * n * u) / (2 * torch.sin(u)))
        return 4 * OMEGA / math.pi * total * (x.abs() <= 1)


@dataclass(frozen=True)
class GrowingFourier(Fourier):
    """More sines from epoch to epoch: 9 to 18."""

    last: float = 18.0

    def at(self, share: float) -> Rule:
        return Fourier(float(round(self.terms + share * (self.last - self.terms))))


NO_RULE = Window(math.inf)  # the gradient passes as it is


def _between(first: float, last: float, share: float) -> float:
    """From first to last, evenly in the logarithm."""
    return float(first * (last / first) ** share)


def rule_named(name: str, numbers: Sequence[float]) -> Rule:
    if name not in RULES:
        raise unknown("gradient rule", name, RULES)
    return RULES[name](*numbers)
