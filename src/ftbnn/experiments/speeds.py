"""The paper's networks by milliseconds: what their budgets promise, and what a CPU makes of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ftbnn.bench.net import held
from ftbnn.drawing import canvas
from ftbnn.experiments.budgets import PRINTED, budget_rows
from ftbnn.text import table

NAMES = ("ftbnn18", *(row.model for row in PRINTED))
REAL = ("fp32", "int8")


def best(rows: Sequence[dict[str, Any]], precision: str, own: dict[str, Any]) -> dict[str, Any] | None:
    """The fastest ResNet-18 of that precision, for as many threads and images."""
    rivals = [
        row
        for row in rows
        if row["precision"] == precision and all(row[key] == own[key] for key in ("threads", "batch"))
    ]
    return min(held(rivals, own), key=lambda row: row["median_ms"], default=None)


def speed_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ours, with budget, the paper's accuracy, and how many times as fast as ResNet-18 in int8 and fp32."""
    budgets = {row["model"]: row["budget_m"] for row in budget_rows()}
    accuracy = {row.model: row.val_top1 for row in PRINTED}
    found = []
    for own in rows:
        if own["engine"] != "ftbnn":
            continue
        facts = {key: own[key] for key in ("name", "isa", "threads", "batch", "median_ms", "min_ms")}
        facts |= {"budget_m": budgets.get(own["name"]), "paper_top1": accuracy.get(own["name"])}
        for precision in REAL:
            if rival := best(rows, precision, own):
                facts[precision] = rival["median_ms"] / own["median_ms"]
                facts[f"{precision}_min"] = rival["min_ms"] / own["min_ms"]
        found.append(facts)
    return found


def show_speeds(speeds: Sequence[dict[str, Any]]) -> str:
    header = ["network", "isa", "threads", "budget M", "paper top-1", "median ms", "min ms", "x int8", "x fp32"]
    cells = [
        [
            row["name"],
            row["isa"],
            row["threads"],
            f"{row['budget_m']:.1f}" if row["budget_m"] else "",
            f"{row['paper_top1']:.1f}" if row["paper_top1"] else "",
            f"{row['median_ms']:.2f}",
            f"{row['min_ms']:.2f}",
            *(f"{row[p]:.2f} ({row[p + '_min']:.2f})" if p in row else "" for p in ("int8", "fp32")),
        ]
        for row in speeds
    ]
    note = "(x: times as fast as the fastest ResNet-18 of its kind, by medians; in brackets by minima)"
    return f"{table(header, cells)}\n{note}"


def draw_speeds(speeds: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Budget against milliseconds, ResNet-18 as lines."""
    derived = [row for row in speeds if row["budget_m"]]
    with canvas(out) as axes:
        for isa in dict.fromkeys(row["isa"] for row in derived):
            for groups, marker in zip((1, 3, 5, 8), "os^D", strict=True):
                mine = [row for row in derived if row["isa"] == isa and f"-g{groups}-" in row["name"]]
                points = ([row["budget_m"] for row in mine], [row["median_ms"] for row in mine])
                axes.plot(*points, marker, label=f"{groups} group{'s' if groups > 1 else ''}, {isa}", markersize=5)
        for precision, style in zip(REAL, ("--", ":"), strict=True):
            if derived and (rival := best(rows, precision, derived[0])):
                axes.axhline(rival["median_ms"], color="#777777", linestyle=style, label=f"ResNet-18 {precision}")
        axes.set_xlabel("budget, millions")
        axes.set_ylabel("ms an image (median)")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)
