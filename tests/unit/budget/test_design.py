import pytest
from torch import nn

from ftbnn.budget import BudgetTooLarge, widest
from ftbnn.budget.design import LARGEST
from ftbnn.errors import UserError
from ftbnn.packing.write import MAX_CHANNELS
from ftbnn.workflows.networks import count_named, design


def test_the_result_fits_and_no_wider_one_does():
    best, around = design(layers=18, groups=8, limit=20e6)
    assert best.fits(20e6)
    assert [d.width for d in around] == list(range(best.width - 2, best.width + 3))
    for wider in range(best.width + 1, best.width + 12):
        assert count_named(f"ftbnn-d18-g8-v{wider}").budget > 20e6


def test_a_dip_behind_the_limit_is_found():
    """With 16 groups a network of v = 33 costs less than one of v = 32: a plain bisection may stop before it."""
    costs = {v: count_named(f"ftbnn-d18-g16-v{v}").budget for v in range(28, 40)}
    assert costs[33] < costs[31]
    best, _ = design(layers=18, groups=16, limit=costs[33])
    assert best.width == max(v for v, cost in costs.items() if cost <= costs[33])


def test_any_builder_works():
    best, _ = widest(lambda width: nn.Conv2d(1, width, 1, bias=False), (1, 10, 10), 1234.0)
    assert best.width == 12


def test_an_impossible_budget_says_so():
    with pytest.raises(UserError, match="no network fits"):
        design(layers=18, groups=1, limit=1e6)


@pytest.mark.parametrize("limit", [float("inf"), float("nan")])
def test_a_budget_is_a_finite_number(limit):
    with pytest.raises(UserError, match=f"a finite number, not {limit}"):
        design(layers=18, groups=1, limit=limit)


def test_nothing_is_wider_than_a_file_can_hold():
    def build(width):
        return nn.Conv2d(1, width, 1, bias=False)

    assert LARGEST == MAX_CHANNELS
    best, around = widest(build, (1, 10, 10), 1299.0, largest=13)
    assert [best.width, *(d.width for d in around)] == [12, 10, 11, 12, 13]
    for limit in (1300.0, 9e9):
        with pytest.raises(BudgetTooLarge, match=r"\(width 13\)"):
            widest(build, (1, 10, 10), limit, largest=13)
    with pytest.raises(BudgetTooLarge, match=r"\(width 4096\)"):  # whose last stage has 2^16 channels
        design(layers=18, groups=1, limit=9e13)
