"""Recipes: what each piece of a recipe brings to the same short training, one piece at a time.

Pieces are chosen by validation accuracy; test accuracy stands beside it, and chooses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ftbnn.drawing import canvas
from ftbnn.experiments.claims import Claim, judge, spread, values
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.experiments.table3 import job as ablation_job
from ftbnn.text import counted

TITLE = "Pieces of a recipe"
ABOUT = (
    "The naive recipe with one change at a time, at equal width and epochs (or equal cost, where that is the change). "
    "Chosen on held-out training images."
)
BASE, TEACHER = "ftbnn18", "resnet18"


@dataclass(frozen=True)
class Trial:
    """One change: settings of the recipe, another family of recipes, another method, or another size of the network."""

    about: str
    settings: dict[str, str] = field(default_factory=dict)
    family: str = "naive"
    method: str | None = None
    has_teacher: bool = False
    width: float = 1.0  # times the request's
    epochs: float = 1.0


TRIALS = {
    "alternate": Trial("images mirrored in every other epoch", {"augment": "crop-alternate"}),
    "smoothing": Trial("labels softened by 0.1", {"label_smoothing": "0.1"}),
    "warm-up": Trial("one epoch of rising rate", {"warmup_epochs": "1"}),
    "small-batches": Trial("batches of 64", {"batch_size": "64"}),
    "small-first": Trial("images of three quarters of the side at first", {"first_size": "0.75"}),
    "settled": Trial("BatchNorm's statistics taken anew at the end", {"norm_images": "10000"}),
    "no-decay": Trial("no weight decay", {"weight_decay": "0"}),
    "bytes": Trial("gradients in bytes", {"backend": "native8"}),
    "teacher": Trial("a teacher's soft labels beside the labels", {"kl": "1"}, has_teacher=True),
    "two-step": Trial("binary inputs first, binary weights for the second half", family="two-step", epochs=0.5),
    "reactnet": Trial("ReActNet's learned thresholds and shifts", method="reactnet"),
    "recu": Trial("ReCU's clamped weights", method="recu"),
    "wide-short": Trial("twice as wide, a third of the epochs", width=2.0, epochs=1 / 3),
}
LABELS = {BASE: "the naive recipe"} | {f"recipe-{name}": trial.about for name, trial in TRIALS.items()}


def jobs(request: Request) -> list[Job]:
    """One seed of everything, then further ones."""
    teacher = [ablation_job(TEACHER, 0, request)]
    return [
        job
        for seed in range(request.seeds)
        for job in (
            ablation_job(BASE, seed, request),
            *(teacher if not seed else []),
            *(_job(name, trial, seed, request) for name, trial in TRIALS.items()),
        )
    ]


def _job(name: str, trial: Trial, seed: int, request: Request) -> Job:
    settings = dict(trial.settings)
    if trial.epochs != 1:
        settings["epochs"] = str(max(1, round(trial.epochs * request.epochs)))
    return Job(
        f"recipe-{name}",
        "ftbnn18",
        seed,
        round(trial.width * request.width),
        family=trial.family,
        settings=settings,
        teacher=f"{TEACHER}-seed0" if trial.has_teacher else "",
        method=trial.method,
    )


def show(request: Request, records: Sequence[Record]) -> Findings:
    records = [record | {"val_top1": _validation(record)} for record in records]
    base = values(records, BASE, "val_top1")
    columns = (
        Column("about", "change"),
        Column("val_top1", "validation top-1", ".2f"),
        Column("gain", "above the naive recipe", "+.2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("top1", f"test top-1 ({request.data})", ".2f"),
        Column("minutes", "minutes a run", ".1f"),
        Column("seeds", "seeds"),
    )
    rows = []
    for variant, about in LABELS.items():
        scores, tests = values(records, variant, "val_top1"), values(records, variant)
        seconds = values(records, variant, "train_seconds")
        rows.append(
            {
                "about": about,
                "val_top1": fmean(scores) if scores else None,
                "gain": fmean(scores) - fmean(base) if scores and base and variant != BASE else None,
                "spread": spread(scores),
                "top1": fmean(tests) if tests else None,
                "minutes": fmean(seconds) / 60 if seconds else None,
                "seeds": len(scores),
            }
        )
    claims = [
        Claim(f"{trial.about}: better than without", f"recipe-{name}", BASE, None, score="val_top1", own=True)
        for name, trial in TRIALS.items()
    ]
    _draw(request, records, base)
    ours = f"{request.data}, width {request.width}, {counted(request.epochs, 'epoch')}"
    picture = Picture("recipes.png", "Validation accuracy above the naive recipe's mean; each seed a dot")
    return Findings(
        [Table("recipes", f"One change at a time: {ours}", columns, rows), judge(claims, records, "")], [picture]
    )


def _validation(record: Record) -> float | None:
    """Of the last epoch: the best of many would be lucky."""
    last = record["epochs"][-1] if record["epochs"] and not record["divergence"] else {}
    score: float | None = last.get("val_top1")
    return score


def _draw(request: Request, records: Sequence[Record], base: Sequence[float]) -> None:
    with canvas(request.out / "recipes.png", size=(6.8, 4.2)) as axes:
        for line, variant in enumerate(reversed(LABELS)):
            gains = [score - fmean(base) for score in values(records, variant, "val_top1")] if base else []
            axes.plot(gains, [line] * len(gains), "o", color="C0")
        axes.set_yticks(range(len(LABELS)), list(reversed(LABELS.values())))
        axes.set_xlabel("points of validation top-1 above the naive recipe")
        axes.axvline(0, color="0.6", lw=1)
        axes.grid(alpha=0.3)
