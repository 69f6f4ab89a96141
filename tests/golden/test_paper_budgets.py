"""The paper's printed budgets against ours, counted from the built modules."""

from dataclasses import replace

import pytest

from ftbnn.budget import CONVENTIONS, PAPER
from ftbnn.experiments.budgets import PRINTED, budget_rows
from ftbnn.workflows.networks import count_named

FLOPS_TOLERANCE_M = 0.06  # the paper prints one decimal, rounded twice in three rows


@pytest.fixture(scope="module")
def rows():
    return list(budget_rows())


def test_twenty_rows(rows):
    assert len(rows) == 20
    assert set(rows[0]) >= {
        *("layers", "groups", "v", "flops_m", "bops_m", "params_m"),
        *("paper_flops_m", "paper_bops_m", "paper_params_m"),
    }


def test_all_params_round_to_the_printed_value(rows):
    assert [round(row["params_m"], 2) for row in rows] == [row.params_m for row in PRINTED]


def test_nineteen_bops_round_to_the_printed_value(rows):
    different = [row["model"] for row in rows if round(row["bops_m"]) != row["paper_bops_m"]]
    assert different == ["ftbnn-d18-g3-90m"]  # prints 4580, the rule gives 4579.06


def test_all_flops_are_within_the_rounding(rows):
    assert all(abs(row["flops_m"] - row["paper_flops_m"]) < FLOPS_TOLERANCE_M for row in rows)


@pytest.mark.parametrize(("name", "budget_m"), [("ftbnn18", 163.99), ("bireal18", 163.99), ("bireal34", 192.89)])
def test_conv_only_budgets(name, budget_m):
    assert round(count_named(name, rule=CONVENTIONS["conv-only"]).budget / 1e6, 2) == budget_m


def test_baseline_params():
    assert round(count_named("ftbnn18").params / 1e6, 3) == 1.053


@pytest.mark.parametrize(("name", "share"), [("ftbnn18", 15.5), ("ftbnn-d18-g1-90m", 77.1)])
def test_shares_of_the_pie_charts(name, share):
    undoubled = replace(PAPER, doubled=False)
    assert round(100 * count_named(name).under(undoubled).binary_share, 1) == share
