"""Figure 1, right: training curves of Bi-Real Net and FTBNN under the same recipe."""

from collections.abc import Sequence
from statistics import fmean

from ftbnn.drawing import canvas
from ftbnn.experiments.claims import Claim, judge, spread, values
from ftbnn.experiments.curves import accuracy, curves
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.experiments.table3 import PAPER_TOP1, job
from ftbnn.text import counted

TITLE = "Figure 1: training curves"
ABOUT = (
    "The paper trains Bi-Real Net and FTBNN from scratch with one recipe and shows that FTBNN trains faster: a "
    "lower training loss and a higher accuracy at every epoch. The runs are those of table 3."
)
LABELS = {"bireal18": "Bi-Real Net 18", "ftbnn18": "FTBNN 18"}
CLAIMS = (Claim("FTBNN ends above Bi-Real Net", "ftbnn18", "bireal18", 7.9),)


def jobs(request: Request) -> list[Job]:
    return [job(variant, seed, request) for seed in range(request.seeds) for variant in ("ftbnn18", "bireal18")]


def show(request: Request, records: Sequence[Record]) -> Findings:
    finished = [record for record in records if not record["divergence"]]
    split, score = accuracy(finished)
    columns = (
        Column("model", "network"),
        Column("paper_top1", "paper top-1 (ImageNet)", ".1f"),
        Column("top1", f"ours top-1 ({request.data})", ".2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("train_loss", "last training loss", ".3f"),
        Column("passed", f"epochs to Bi-Real's last top-1 ({split})"),
        Column("seeds", "seeds"),
    )
    goal = [record["epochs"][-1][score] for record in finished if record["variant"] == "bireal18"]
    rows = []
    for variant, label in LABELS.items():
        done = [record for record in finished if record["variant"] == variant]
        top1 = values(done, variant)
        passed = [_first(record, score, fmean(goal)) for record in done] if goal else []
        rows.append(
            {
                "model": label,
                "paper_top1": PAPER_TOP1[variant],
                "top1": fmean(top1) if top1 else None,
                "spread": spread(top1),
                "train_loss": fmean(record["epochs"][-1]["train_loss"] for record in done) if done else None,
                "passed": _mean_epoch(passed) if variant != "bireal18" else request.epochs,
                "seeds": len(done),
            }
        )
    with canvas(request.out / "figure1.png") as axes:
        curves(axes, records, LABELS)
    caption = f"The end of training, and how soon FTBNN is where Bi-Real Net ends; {counted(request.epochs, 'epoch')}"
    drawn_as = f"Training loss and {split} accuracy on {request.data}, width {request.width}; mean over seeds"
    picture = Picture("figure1.png", drawn_as)
    return Findings([Table("curves", caption, columns, rows), judge(CLAIMS, records, "figure 1")], [picture])


def _mean_epoch(epochs: Sequence[int | None]) -> str | int | None:
    reached = [epoch for epoch in epochs if epoch is not None]
    if not epochs:
        return None
    return round(fmean(reached)) if len(reached) == len(epochs) else "not reached"


def _first(record: Record, score: str, goal: float) -> int | None:
    """The first epoch (from 1) whose score is at least `goal`."""
    return next((k for k, row in enumerate(record["epochs"], start=1) if row[score] >= goal), None)
