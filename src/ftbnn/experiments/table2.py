"""Table 2: the FPReLU slopes that a trained baseline has learned, mean [least greatest] per block."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ftbnn.drawing import canvas
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.experiments.table3 import job

TITLE = "Table 2: learned slopes of FPReLU"
ABOUT = (
    "Both slopes of every FPReLU start at 1 and are learned per channel. The paper prints their mean, least and "
    "greatest value after each block and concludes that they spread widely around 1. The runs are those of table "
    "3's baseline; with several seeds, means, least and greatest values are averaged over them."
)
Slope = tuple[float, float, float]  # mean, least, greatest

# Block -> (slope of negative values, slope of positive values), as printed.
PAPER: dict[str, tuple[Slope, Slope]] = {
    "1-1": ((1.82, 0.48, 4.63), (1.16, 0.63, 2.19)),
    "1-2": ((0.95, 0.00, 2.69), (0.72, 0.34, 1.72)),
    "1-3": ((0.87, 0.33, 4.49), (0.75, 0.26, 1.40)),
    "2-1": ((0.91, 0.54, 2.80), (0.93, 0.56, 2.04)),
    "2-2": ((0.93, 0.45, 3.16), (0.83, 0.54, 1.70)),
    "2-3": ((0.81, 0.00, 1.82), (0.86, 0.46, 1.69)),
    "3-1": ((0.84, 0.47, 2.07), (0.95, 0.61, 1.84)),
    "3-2": ((0.86, 0.44, 2.85), (0.79, 0.46, 1.51)),
    "3-3": ((0.76, 0.04, 1.97), (0.78, 0.28, 2.50)),
    "4-1": ((0.96, 0.54, 2.86), (0.90, 0.14, 2.05)),
    "4-2": ((1.04, 0.44, 4.66), (0.67, 0.00, 1.44)),
    "4-3": ((0.68, 0.23, 2.80), (0.95, 0.23, 3.51)),
}
SIDES = (("left", "negative"), ("right", "positive"))


def jobs(request: Request) -> list[Job]:
    return [job("ftbnn18", seed, request) for seed in range(request.seeds)]


def _layer(block: str) -> str:
    stage, number = map(int, block.split("-"))
    return f"stage{stage}.{number - 1}.act"


def _ours(block: str, side: str, records: Sequence[Record]) -> Slope | None:
    slopes = [record["records"][_layer(block)] for record in records if record["records"]]
    if not slopes:
        return None
    mean, least, greatest = (fmean(slope[f"{side}_{what}"] for slope in slopes) for what in ("mean", "min", "max"))
    return mean, least, greatest


def _text(slope: Slope | None) -> str | None:
    return None if slope is None else f"{slope[0]:.2f} [{slope[1]:.2f} {slope[2]:.2f}]"


def show(request: Request, records: Sequence[Record]) -> Findings:
    columns = [Column("block", "block after")]
    columns += [Column(f"{who}_{side}", f"{who}: {word}") for side, word in SIDES for who in ("paper", "ours")]
    rows: list[dict[str, Any]] = []
    for block, printed in PAPER.items():
        row: dict[str, Any] = {"block": f"BConv{block}"}
        for (side, _), paper in zip(SIDES, printed, strict=True):
            row |= {f"paper_{side}": _text(paper), f"ours_{side}": _text(_ours(block, side, records))}
        rows.append(row)
    _draw(request, records)
    ours = f"ours on {request.data} at width {request.width}"
    caption = f"Slopes as mean [least greatest]: paper on ImageNet at width 64, {ours}"
    picture = Picture("table2.png", "Mean (dot), least and greatest (bar) slope after each block")
    return Findings([Table("slopes", caption, columns, rows)], [picture])


def _draw(request: Request, records: Sequence[Record]) -> None:
    with canvas(request.out / "table2.png", rows=2, size=(6.4, 5.6)) as axes:
        for axis, (side, word), index in zip(axes, SIDES, (0, 1), strict=True):
            for who, shift in (("paper", -0.15), ("ours", 0.15)):
                bars = {
                    place + shift: slope
                    for place, block in enumerate(PAPER)
                    if (slope := PAPER[block][index] if who == "paper" else _ours(block, side, records)) is not None
                }
                means = [slope[0] for slope in bars.values()]
                reach = [[abs(slope[0] - slope[k]) for slope in bars.values()] for k in (1, 2)]
                color = "C1" if who == "paper" else "C0"
                if bars:
                    axis.errorbar(list(bars), means, yerr=reach, fmt="o", capsize=3, color=color, label=who)
            axis.axhline(1, color="0.6", linewidth=0.8)
            axis.set_xticks(range(len(PAPER)), list(PAPER))
            axis.set_ylabel(f"slope of {word} values")
            axis.legend(fontsize="small")
        axes[1].set_xlabel("block (stage-number)")
