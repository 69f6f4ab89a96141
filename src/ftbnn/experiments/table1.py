"""Table 1: the naive recipe against multi-step training with a teacher."""

from collections.abc import Sequence
from statistics import fmean

from ftbnn.drawing import canvas
from ftbnn.experiments.claims import Claim, judge, spread, values
from ftbnn.experiments.curves import curves
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.experiments.table3 import PAPER_TOP1, job

TITLE = "Table 1: naive against multi-step training"
ABOUT = (
    "The paper's baseline reaches 60.2 % on ImageNet with the naive recipe and 63.2 % with multi-step training and "
    "knowledge distillation. Multi-step training also takes more epochs; `naive, as long` has as many as the three "
    "steps together, so that what the steps and the teacher add can be told from what the time adds. Each seed "
    "has a teacher of its own. The table's other methods are trained by `ftbnn reproduce methods`."
)
MULTI, LONG, TEACHER = "ftbnn18-multi-step", "ftbnn18-long", "resnet18"
STEPS = 3
PAPER = PAPER_TOP1 | {MULTI: 63.2, LONG: None}
LABELS = {
    "ftbnn18": "FTBNN, naive",
    MULTI: "FTBNN, multi-step with teacher",
    LONG: "FTBNN, naive, as long",
    TEACHER: "the teacher: real-valued ResNet-18",
}
CLAIMS = (
    Claim("multi-step beats naive", MULTI, "ftbnn18", 3.0),
    Claim("multi-step beats naive of the same length", MULTI, LONG, None, own=True),
)


def jobs(request: Request) -> list[Job]:
    """A seed after the other; naive training and the teacher are table 3's."""
    long = {"epochs": str(STEPS * request.epochs)}
    return [
        one
        for seed in range(request.seeds)
        for one in (
            job("ftbnn18", seed, request),
            job(TEACHER, seed, request),
            Job(MULTI, "ftbnn18", seed, request.width, family="multi-step", teacher=f"{TEACHER}-seed{seed}"),
            Job(LONG, "ftbnn18", seed, request.width, settings=long),
        )
    ]


def show(request: Request, records: Sequence[Record]) -> Findings:
    columns = (
        Column("about", "training"),
        Column("epochs", "epochs"),
        Column("paper_top1", "paper top-1 (ImageNet)", ".1f"),
        Column("top1", f"ours top-1 ({request.data})", ".2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("seeds", "seeds"),
    )
    rows = []
    for variant, about in LABELS.items():
        done = [record for record in records if record["variant"] == variant]
        top1 = values(done, variant)
        rows.append(
            {
                "about": about,
                "epochs": "+".join(str(recipe["epochs"]) for recipe in done[0]["recipes"]) if done else None,
                "paper_top1": PAPER[variant],
                "top1": fmean(top1) if top1 else None,
                "spread": spread(top1),
                "seeds": len(top1),
            }
        )
    with canvas(request.out / "table1.png") as axes:
        curves(axes, records, LABELS, train=True)
    picture = Picture(
        "table1.png", "Accuracy over the epochs; the three steps of multi-step training follow each other"
    )
    caption = f"Two ways to train the baseline: paper on ImageNet, ours on {request.data}, width {request.width}"
    tables = [Table("recipes", caption, columns, rows), judge(CLAIMS, records, "table 1")]
    return Findings(tables, [picture])
