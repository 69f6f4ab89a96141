"""Table 1: the naive recipe against multi-step training with a teacher, and the methods it is compared with."""

from collections.abc import Sequence
from statistics import fmean

from ftbnn.drawing import canvas
from ftbnn.experiments.claims import Claim, judge, spread, values
from ftbnn.experiments.curves import curves
from ftbnn.experiments.methods import method_jobs, method_table
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.experiments.table3 import PAPER_TOP1, job

TITLE = "Table 1: naive against multi-step training, and other methods"
ABOUT = (
    "The paper's baseline reaches 60.2 % on ImageNet with the naive recipe and 63.2 % with multi-step training and "
    "knowledge distillation. Multi-step training also takes more epochs; `naive, as long` has as many as the three "
    "steps together, so that what the steps and the teacher add can be told from what the time adds. The other methods "
    "are trained with the naive recipe, in the same network: what the paper quotes was each one's own."
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
    Claim("multi-step beats naive of the same length (not in the paper)", MULTI, LONG, None),
)


def jobs(request: Request) -> list[Job]:
    """The teacher of every seed is seed 0's."""
    long = {"epochs": str(STEPS * request.epochs)}
    multi = [
        Job(MULTI, "ftbnn18", seed, request.width, family="multi-step", teacher=f"{TEACHER}-seed0")
        for seed in range(request.seeds)
    ]
    naive = [job("ftbnn18", seed, request) for seed in range(request.seeds)]
    longs = [Job(LONG, "ftbnn18", seed, request.width, settings=long) for seed in range(request.seeds)]
    teacher = job(TEACHER, 0, request)
    return [naive[0], teacher, multi[0], longs[0], *naive[1:], *multi[1:], *longs[1:], *method_jobs(request)]


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
    tables = [Table("recipes", caption, columns, rows), method_table(request, records), judge(CLAIMS, records)]
    return Findings(tables, [picture])
