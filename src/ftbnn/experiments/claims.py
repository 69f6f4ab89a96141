"""The paper's claims against ours: a difference counts if the 95 % interval over the seeds leaves out 0.

Judged are means of three seeds or more on both sides; a claim of equality holds where the whole interval is small.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from ftbnn.experiments.result import Column, Table

SEEDS = 3  # with fewer the interval rests on the spread of other variants alone
SMALL = 1.0  # points that count as no difference
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot tell"  # how a verdict begins
OWN = "not in the paper"

COLUMNS = (
    Column("claim", "claim"),
    Column("where", "where in the paper"),
    Column("paper", "paper: difference", "+.1f"),
    Column("ours", "ours: difference", "+.2f"),
    Column("noise", "95 % interval ±", ".2f"),
    Column("seeds", "seeds"),
    Column("verdict", "here"),
)


@dataclass(frozen=True)
class Claim:
    """`more` scores above `less` (`equal`: about the same), by as much as the paper prints, if it does."""

    text: str
    more: str
    less: str
    paper: float | None
    score: str = "top1"
    equal: bool = False
    own: bool = False  # a question of ours, which the paper does not answer


def values(records: Sequence[dict[str, Any]], variant: str, score: str = "top1") -> list[float]:
    """The scores of a variant's seeds; `a.b` looks inside."""
    found = []
    for record in records:
        value: Any = record if record["variant"] == variant else None
        for key in score.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            found.append(float(value))
    return found


def spread(samples: Sequence[float]) -> float | None:
    """The standard deviation over seeds; None of a single one."""
    return stdev(samples) if len(samples) > 1 else None


def pooled(groups: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """One standard deviation for several groups, each around its own mean, and its degrees of freedom.

    A group whose values are all the same says nothing about seeds (a linear network has no discrepancy to spread).
    """
    spread_out = [group for group in groups if len(set(group)) > 1]
    freedom = sum(len(group) - 1 for group in spread_out)
    if not freedom:
        return None
    return math.sqrt(sum((value - fmean(group)) ** 2 for group in spread_out for value in group) / freedom), freedom


def interval(deviation: float, freedom: int, seeds: Sequence[int]) -> float:
    """Half the 95 % interval of a difference between two means of so many seeds each."""
    from scipy.stats import t  # comes with scikit-learn

    return float(t.ppf(0.975, freedom)) * deviation * math.sqrt(sum(1 / count for count in seeds))


def judge(claims: Sequence[Claim], records: Sequence[dict[str, Any]], where: str) -> Table:
    """A row per claim whose runs are there. The spread is pooled over all variants that have several seeds."""
    variants = list(dict.fromkeys(record["variant"] for record in records))
    rows = []
    for claim in claims:
        more, less = (values(records, variant, claim.score) for variant in (claim.more, claim.less))
        if not more or not less:
            continue
        noise_of_seeds = pooled([values(records, variant, claim.score) for variant in variants])
        difference = fmean(more) - fmean(less)
        noise = None if noise_of_seeds is None else interval(*noise_of_seeds, (len(more), len(less)))
        rows.append(
            {
                "claim": claim.text,
                "where": OWN if claim.own else where,
                "paper": claim.paper,
                "ours": difference,
                "noise": noise,
                "seeds": f"{len(more)} / {len(less)}",
                "verdict": _verdict(difference, noise, min(len(more), len(less)), equal=claim.equal),
            }
        )
    return Table("claims", "Claims: the difference against the noise of the seeds", COLUMNS, rows)


def _verdict(difference: float, noise: float | None, seeds: int, *, equal: bool) -> str:
    if seeds < SEEDS or noise is None:
        return f"{OPEN}: fewer than {SEEDS} seeds"
    if equal and abs(difference) + noise <= SMALL:
        return f"{HOLDS}: within {SMALL:g}"
    if abs(difference) <= noise:
        return f"{OPEN}: within noise"
    if equal:
        return FAILS
    return HOLDS if difference > 0 else f"{FAILS}: reversed"
