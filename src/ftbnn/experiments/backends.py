"""Backends: do PyTorch and the native core learn the same? Some seeds of the baseline with each, side by side."""

from collections.abc import Sequence
from statistics import fmean

from ftbnn.drawing import canvas
from ftbnn.experiments.claims import Claim, judge, spread, values
from ftbnn.experiments.curves import curves
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.machine import capabilities
from ftbnn.text import counted

TITLE = "Backends: one learning"
ABOUT = (
    "The native core rounds otherwise than PyTorch does: bf16 or bytes in the gradients of binary convolutions, other "
    "orders of sums. What is learned must be the same within the noise of the seeds."
)
LABELS = {"torch": "PyTorch", "native": "native", "native8": "native, gradients in bytes"}
CLAIMS = tuple(
    Claim(f"{LABELS[backend]} learns as PyTorch does", backend, "torch", None, equal=True, own=True)
    for backend in ("native", "native8")
)


def jobs(request: Request) -> list[Job]:
    names = [name for name in LABELS if name != "native8" or capabilities()["training"]["bytes"]]
    return [
        Job(backend, "ftbnn18", seed, request.width, settings={"backend": backend})
        for seed in range(request.seeds)
        for backend in names
    ]


def show(request: Request, records: Sequence[Record]) -> Findings:
    columns = (
        Column("about", "backend"),
        Column("top1", f"top-1 ({request.data})", ".2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("images_per_s", "images/s", ".0f"),
        Column("seeds", "seeds"),
    )
    rows = []
    for variant, about in LABELS.items():
        top1, pace = values(records, variant), values(records, variant, "images_per_s")
        if top1:
            facts = {"top1": fmean(top1), "spread": spread(top1), "images_per_s": fmean(pace), "seeds": len(top1)}
            rows.append({"about": about, **facts})
    with canvas(request.out / "backends.png") as axes:
        curves(axes, records, LABELS)
    caption = f"ftbnn18 of width {request.width} on {request.data}, {counted(request.epochs, 'epoch')}"
    picture = Picture("backends.png", "Training loss and accuracy over the epochs; mean over seeds")
    return Findings([Table("backends", caption, columns, rows), judge(CLAIMS, records, "")], [picture])
