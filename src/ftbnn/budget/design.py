"""The widest network that a budget allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite

from torch import nn

from ftbnn.budget.count import PAPER, Budget, Convention, count
from ftbnn.errors import UserError

LARGEST = 2**16  # a file holds no more channels (docs/format.md)
DIP = 1.25  # the deepest dip of the derived networks is 2 % at 8 groups, 3 % at 16 and 11 % at 32


class BudgetTooLarge(UserError):
    """Even the widest network that a file can hold costs less."""


@dataclass(frozen=True)
class Design:
    """A width with what it costs."""

    width: int
    budget: Budget

    def fits(self, limit: float) -> bool:
        return self.budget.budget <= limit


def widest(
    build: Callable[[int], nn.Module],
    input_shape: Sequence[int],
    limit: float,
    *,
    smallest: int = 1,
    largest: int = LARGEST,
    neighbours: int = 2,
    rule: Convention = PAPER,
) -> tuple[Design, list[Design]]:
    """The largest width whose network costs at most `limit`, and the designs around it (itself included); raises
    BudgetTooLarge where even `largest` fits.

    Uneven groups make the cost fall now and then as the width grows, so a bisection alone may stop short: after it,
    wider networks are tried until the cost is DIP times the limit.
    """

    @cache
    def at(width: int) -> Design:
        return Design(width, count(build(width), input_shape, rule=rule))

    if not isfinite(limit):
        raise UserError(f"a budget is a finite number, not {limit}")
    if not at(smallest).fits(limit):
        cheapest = at(smallest).budget.budget
        raise UserError(
            f"no network fits: the narrowest (width {smallest}) already costs {cheapest / 1e6:.2f} M, "
            f"the budget is {limit / 1e6:.2f} M"
        )
    low, high = smallest, max(smallest, min(2 * smallest, largest))
    while at(high).fits(limit):
        if high >= largest:
            raise BudgetTooLarge(
                f"the widest network that a file can hold (width {high}) costs {at(high).budget.budget / 1e6:.2f} M, "
                f"the budget is {limit / 1e6:.2f} M"
            )
        low, high = high, min(2 * high, largest)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle).fits(limit) else (low, middle)
    best, width = low, low + 1
    while width <= largest and at(width).fits(DIP * limit):
        best = width if at(width).fits(limit) else best
        width += 1
    around = range(max(smallest, best - neighbours), min(best + neighbours, largest) + 1)
    return at(best), [at(width) for width in around]
