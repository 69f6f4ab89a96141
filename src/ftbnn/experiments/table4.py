"""Table 4: group execution (left), the paper's 20 budgets in full, and other methods (right)."""

from collections.abc import Sequence
from functools import cache
from statistics import fmean

import numpy as np

from ftbnn.budget import Design
from ftbnn.data import Spec
from ftbnn.drawing import canvas
from ftbnn.experiments.budgets import PRINTED, budget_rows, reference_rows
from ftbnn.experiments.claims import Claim, judge, spread, values
from ftbnn.experiments.curves import curves
from ftbnn.experiments.methods import LABELS as METHOD_LABELS
from ftbnn.experiments.methods import right_jobs, right_table
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.nn import stem_for
from ftbnn.text import counted
from ftbnn.workflows.networks import design

TITLE = "Table 4: derived networks and groups"
ABOUT = (
    "At an equal budget more groups allow a wider network. The paper finds that 18 layers gain nothing from groups "
    "and that 34 layers do, in training and in test accuracy. Here the widths come from `ftbnn design` at one "
    "budget for the data's image size. The 20 budgets of the paper's own networks are counted, not trained. The right "
    "half has other methods, here all in one network and with one recipe."
)
DEPTHS, GROUPS = (18, 34, 44), (1, 3, 5, 8)
# Most telling first: what the paper says of 34 layers, then of 18; 44 layers are the longest to train.
ORDER = [(34, 1), (34, 5), (18, 1), (18, 5), (34, 3), (18, 3), (34, 8), (18, 8), (44, 1), (44, 5), (44, 3), (44, 8)]
LABELS = METHOD_LABELS  # the derived networks' rows are their layers and groups
# The paper's rows beside ours: of its smaller budget, and of its larger where that alone has the depth.
PAPER = {(row.layers, row.groups): row for row in sorted(PRINTED, key=lambda row: -row.budget)}


def _claim(text: str, layers: int, score: str, *, equal: bool = False) -> Claim:
    more, less = PAPER[layers, 5], PAPER[layers, 1]
    paper = more.val_top1 - less.val_top1 if score == "top1" else more.train_top1 - less.train_top1
    return Claim(text, f"d{layers}-g5", f"d{layers}-g1", paper, score, equal)


CLAIMS = (
    _claim("34 layers: 5 groups beat 1 in test accuracy", 34, "top1"),
    _claim("34 layers: 5 groups beat 1 in training accuracy", 34, "train_top1"),
    _claim("18 layers: groups change nothing in test accuracy", 18, "top1", equal=True),
    _claim("18 layers: 5 groups beat 1 in training accuracy", 18, "train_top1"),
    Claim("with 5 groups 34 layers beat 18", "d34-g5", "d18-g5", PAPER[34, 5].val_top1 - PAPER[18, 5].val_top1),
    Claim("without groups 18 layers beat 34", "d18-g1", "d34-g1", PAPER[18, 1].val_top1 - PAPER[34, 1].val_top1),
    _claim("44 layers: 5 groups beat 1 in test accuracy", 44, "top1"),
)


@cache
def _widest(layers: int, groups: int, limit: float, spec: Spec) -> Design:
    best, _ = design(
        layers=layers,
        groups=groups,
        limit=limit,
        image_size=spec.image_size,
        classes=spec.classes,
        in_channels=spec.channels,
        stem=stem_for(spec.image_size),
    )
    return best


def _design(layers: int, groups: int, request: Request) -> Design:
    return _widest(layers, groups, 1e6 * request.budget_m, request.spec)


def jobs(request: Request) -> list[Job]:
    """One seed of everything, then further ones; then methods."""
    derived = [
        Job(f"d{layers}-g{groups}", f"ftbnn-d{layers}-g{groups}-v{_design(layers, groups, request).width}", seed, None)
        for seed in range(request.seeds)
        for layers, groups in ORDER
    ]
    return derived + right_jobs(request)


def show(request: Request, records: Sequence[Record]) -> Findings:
    columns = (
        Column("layers", "layers"),
        Column("groups", "groups"),
        Column("v", "v"),
        Column("budget_m", "budget M", ".3f"),
        Column("paper_budget", "paper's budget M"),
        Column("paper_train", "paper train", ".1f"),
        Column("train_top1", "ours train", ".2f"),
        Column("paper_val", "paper top-1", ".1f"),
        Column("top1", f"ours top-1 ({request.data})", ".2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("seeds", "seeds"),
    )
    rows = []
    for layers in DEPTHS:
        for groups in GROUPS:
            variant, made = f"d{layers}-g{groups}", _design(layers, groups, request)
            top1, trained = values(records, variant), values(records, variant, "train_top1")
            rows.append(
                {
                    "layers": layers,
                    "groups": groups,
                    "v": made.width,
                    "budget_m": made.budget.budget / 1e6,
                    "paper_budget": PAPER[layers, groups].budget,
                    "paper_train": PAPER[layers, groups].train_top1,
                    "train_top1": fmean(trained) if trained else None,
                    "paper_val": PAPER[layers, groups].val_top1,
                    "top1": fmean(top1) if top1 else None,
                    "spread": spread(top1),
                    "seeds": len(top1),
                }
            )
    ours = f"{request.data}, {counted(request.epochs, 'epoch')}"
    caption = f"Equal budget ({request.budget_m:g} M): paper on ImageNet, ours on {ours}"
    tables = [
        Table("groups", caption, columns, rows),
        judge(CLAIMS, records, "section 4.2, table 4"),
        right_table(request, records),
        *_budgets(),
    ]
    return Findings(tables, _draw(request, records))


def _draw(request: Request, records: Sequence[Record]) -> list[Picture]:
    drawn = [layers for layers in DEPTHS if any(values(records, f"d{layers}-g{groups}") for groups in GROUPS)]
    if not drawn:
        return []
    with canvas(request.out / "table4.png", rows=len(drawn), size=(6.4, 4 * len(drawn))) as axes:
        for axis, layers in zip(np.atleast_1d(axes), drawn, strict=True):
            axis.set_title(f"{layers} layers", loc="left")
            curves(axis, records, {f"d{layers}-g{g}": f"G = {g}" for g in GROUPS}, train=True)
    return [Picture("table4.png", "Accuracy at equal budget over the epochs; mean over seeds")]


@cache
def _budgets() -> tuple[Table, Table]:
    columns = (
        Column("layers", "layers"),
        Column("groups", "groups"),
        Column("v", "v"),
        Column("paper_flops_m", "paper FLOPs M", ".1f"),
        Column("flops_m", "ours", ".3f"),
        Column("paper_bops_m", "paper BOPs M", ".0f"),
        Column("bops_m", "ours", ".2f"),
        Column("paper_params_m", "paper Params M", ".2f"),
        Column("params_m", "ours", ".4f"),
        Column("budget_m", "budget M", ".2f"),
    )
    also = (Column("what", "also printed"), Column("paper", "paper"), Column("ours", "ours", ".2f"))
    return (
        Table("budgets", "The paper's 20 derived networks, counted", columns, list(budget_rows())),
        Table("references", "Other budgets the paper prints", also, reference_rows()),
    )
