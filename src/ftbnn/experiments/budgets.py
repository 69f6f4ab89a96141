"""Table 4, left: the budgets of the 20 derived networks, ours counted from the built modules, beside the paper's."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ftbnn.budget import CONVENTIONS, PAPER, Budget, count
from ftbnn.models import build, find
from ftbnn.models.skeleton import skeleton

MEGA = 1e6
INPUT = (3, 224, 224)


@dataclass(frozen=True)
class Printed:
    """A row as the paper prints it."""

    layers: int
    groups: int
    budget: int
    flops_m: float
    bops_m: float
    params_m: float
    train_top1: float
    val_top1: float

    @property
    def model(self) -> str:
        return f"ftbnn-d{self.layers}-g{self.groups}-{self.budget}m"


PRINTED = (
    Printed(18, 1, 90, 19.0, 4516, 1.66, 61.0, 61.9),
    Printed(18, 3, 90, 23.1, 4580, 2.06, 61.6, 61.9),
    Printed(18, 5, 90, 25.8, 4301, 2.28, 62.2, 61.9),
    Printed(18, 8, 90, 28.7, 3988, 2.55, 61.5, 61.1),
    Printed(34, 1, 90, 19.3, 4176, 1.32, 58.8, 61.0),
    Printed(34, 3, 90, 23.8, 4005, 1.59, 60.6, 62.0),
    Printed(34, 5, 90, 27.0, 3829, 1.79, 61.8, 62.5),
    Printed(34, 8, 90, 30.1, 3577, 1.97, 61.9, 62.0),
    Printed(18, 1, 135, 21.1, 7399, 2.42, 66.1, 64.8),
    Printed(18, 3, 135, 26.2, 7285, 2.88, 66.6, 64.5),
    Printed(18, 5, 135, 29.9, 7031, 3.22, 67.2, 64.2),
    Printed(18, 8, 135, 34.0, 6717, 3.60, 66.4, 63.4),
    Printed(34, 1, 135, 21.6, 6994, 1.99, 63.5, 64.5),
    Printed(34, 3, 135, 27.4, 6639, 2.31, 65.8, 65.3),
    Printed(34, 5, 135, 31.5, 6412, 2.56, 66.8, 65.5),
    Printed(34, 8, 135, 36.0, 6090, 2.83, 67.3, 65.0),
    Printed(44, 1, 135, 22.1, 6847, 2.07, 62.4, 63.3),
    Printed(44, 3, 135, 28.5, 6512, 2.33, 65.3, 64.8),
    Printed(44, 5, 135, 32.9, 6251, 2.55, 66.4, 65.3),
    Printed(44, 8, 135, 37.5, 5947, 2.76, 66.9, 65.3),
)


def _count(model: str) -> Budget:
    with skeleton():
        module = build(model)
    return count(module, INPUT)


def budget_rows() -> Iterator[dict[str, Any]]:
    """The 20 networks, each built and counted, with the paper's numbers beside."""
    for row in PRINTED:
        ours = _count(row.model)
        yield {
            "model": row.model,
            "layers": row.layers,
            "groups": row.groups,
            "v": find(row.model).builder.keywords["v"],  # type: ignore[attr-defined]
            "flops_m": ours.flops / MEGA,
            "bops_m": ours.bops / MEGA,
            "params_m": ours.params / MEGA,
            "budget_m": ours.budget / MEGA,
            "paper_flops_m": row.flops_m,
            "paper_bops_m": row.bops_m,
            "paper_params_m": row.params_m,
        }


def reference_rows() -> list[dict[str, Any]]:
    """The other figures the paper prints about budgets: (what, paper's, ours)."""
    conv_only = CONVENTIONS["conv-only"]
    undoubled = replace(PAPER, name="paper, not doubled", doubled=False)
    baseline, bireal18, bireal34 = (_count(name) for name in ("ftbnn18", "bireal18", "bireal34"))
    purified = _count("ftbnn-d18-g1-90m")
    return [
        {
            "what": "ftbnn18 budget, conv-only (M)",
            "paper": "~163",
            "ours": baseline.under(conv_only).budget / MEGA,
        },
        {
            "what": "bireal18 budget, conv-only (M)",
            "paper": "~163",
            "ours": bireal18.under(conv_only).budget / MEGA,
        },
        {
            "what": "bireal34 budget, conv-only (M)",
            "paper": "193",
            "ours": bireal34.under(conv_only).budget / MEGA,
        },
        {
            "what": "binary share of the baseline (%)",
            "paper": "15",
            "ours": 100 * baseline.under(undoubled).binary_share,
        },
        {
            "what": "binary share of the purified 18/G1 (%)",
            "paper": "77",
            "ours": 100 * purified.under(undoubled).binary_share,
        },
    ]
