import math

import pytest

from ftbnn.experiments.claims import Claim, interval, judge, pooled, spread, values


def records(**scores):
    return [{"variant": name, "top1": value} for name, many in scores.items() for value in many]


def test_the_spread_is_the_sample_deviation():
    assert spread([1.0]) is None
    assert spread([1.0, 3.0]) == pytest.approx(math.sqrt(2))
    assert pooled([[1.0, 3.0], [10.0, 12.0], [5.0], [0.0, 0.0, 0.0]]) == (pytest.approx(math.sqrt(2)), 2)
    assert pooled([[1.0], []]) is None


def test_few_seeds_need_a_wide_margin():
    """Student's t, as tables print it: 12.706 for one degree of freedom, 2.571 for 5, 1.984 for 99."""
    assert interval(1.0, 1, (2, 2)) == pytest.approx(12.706, abs=5e-4)
    assert interval(1.0, 5, (2, 1)) == pytest.approx(2.571 * math.sqrt(1.5), abs=1e-3)
    assert interval(1.0, 99, (1, 1)) == pytest.approx(1.984 * math.sqrt(2), abs=1e-3)


@pytest.mark.parametrize(
    ("more", "less", "equal", "verdict"),
    [
        ([80.0, 80.2, 80.1], [75.0, 75.2, 75.1], False, "holds"),
        ([75.0, 75.2, 75.1], [80.0, 80.2, 80.1], False, "does not hold: reversed"),
        ([80.0, 80.2, 80.1], [80.1, 80.0, 80.1], False, "cannot tell: within noise"),
        ([80.0, 80.2, 80.1], [80.1, 80.0, 80.1], True, "holds: within 1"),
        ([80.0, 82.0, 84.0], [80.0, 82.1, 84.0], True, "cannot tell: within noise"),
        ([80.0, 80.2, 80.1], [75.0, 75.2, 75.1], True, "does not hold"),
        ([80.0, 80.2, 80.1], [75.0, 75.2], False, "cannot tell: fewer than 3 seeds"),
        ([80.0], [75.0], True, "cannot tell: fewer than 3 seeds"),
    ],
)
def test_a_claim_is_judged_against_the_noise_of_the_seeds(more, less, equal, verdict):
    table = judge([Claim("a beats b", "a", "b", 7.7, equal=equal)], records(a=more, b=less), "table 3")
    assert table.rows[0]["verdict"] == verdict
    assert table.rows[0]["where"] == "table 3"
    assert table.rows[0]["ours"] == pytest.approx(sum(more) / len(more) - sum(less) / len(less))


def test_a_claim_whose_runs_are_missing_is_left_out():
    assert judge([Claim("a beats b", "a", "b", 7.7)], records(a=[1.0]), "table 3").rows == []


def test_a_question_of_our_own_says_so():
    table = judge([Claim("a beats b", "a", "b", None, own=True)], records(a=[1.0], b=[2.0]), "table 3")
    assert table.rows[0]["where"] == "not in the paper"


def test_values_look_inside_and_leave_out_what_diverged():
    rows = [{"variant": "a", "top1": None}, {"variant": "a", "top1": 3.0, "measured": {"apart": 2.0}}]
    assert values(rows, "a") == [3.0]
    assert values(rows, "a", "measured.apart") == [2.0]
