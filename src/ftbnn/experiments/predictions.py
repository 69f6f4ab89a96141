"""The paper's 20 derived networks: milliseconds predicted from the table of costs beside those measured."""

from collections.abc import Callable, Sequence
from typing import Any

from ftbnn.experiments.budgets import budget_rows
from ftbnn.text import table
from ftbnn.workflows.latency import Timed, check

TOLERANCE = 0.1


def prediction_rows(*, threads: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    networks = list(budget_rows())
    timed = check([(row["layers"], row["groups"], row["v"]) for row in networks], threads=threads, say=say)
    return [
        timed_row(row["model"], row["budget_m"], result) | {"v": row["v"], "threads": threads}
        for row, result in zip(networks, timed, strict=True)
    ]


def timed_row(model: str, budget_m: float, result: Timed) -> dict[str, Any]:
    times = {"predicted_ms": result.predicted_ms, "measured_ms": result.measured_ms, "error": result.error}
    return {"model": model, "budget_m": budget_m, **times}


def show_timed(rows: Sequence[dict[str, Any]]) -> str:
    cells = [
        [
            row["model"],
            f"{row['budget_m']:.2f}",
            f"{row['predicted_ms']:.2f}",
            f"{row['measured_ms']:.2f}",
            f"{row['error']:+.1%}",
        ]
        for row in rows
    ]
    return table(["model", "budget M", "predicted ms", "measured ms", "error"], cells)


def verdict(rows: Sequence[dict[str, Any]]) -> str:
    """One line: how many predictions hold, and the worst."""
    within = sum(abs(row["error"]) <= TOLERANCE for row in rows)
    worst = max(rows, key=lambda row: abs(row["error"]))
    return f"{within} of {len(rows)} within {TOLERANCE:.0%}; the worst is {worst['model']}: {worst['error']:+.1%}"
