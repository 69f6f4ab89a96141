"""Loss and accuracy of several runs over the epochs, as the paper's figure 1 draws them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ftbnn.drawing import canvas, picture_file, whole_numbers
from ftbnn.errors import UserError
from ftbnn.training.record import read
from ftbnn.training.run import RunDir

FEW = 30  # epochs that are drawn as dots too: of one alone there is no line

Steps = list[list[dict[str, Any]]]  # the epoch rows of each step of a run


def load_curve(run: Path) -> list[dict[str, Any]]:
    """The epoch rows of a run; of a multi-step run those of all its steps, one after the other."""
    return _in_a_row(run, epochs_by_step(run))


def _in_a_row(run: Path, steps: Steps) -> list[dict[str, Any]]:
    rows = [row for step in steps for row in step]
    if not rows:
        raise UserError(f"{run} has no finished epoch yet")
    return rows


def epochs_by_step(run: Path) -> Steps:
    """The epoch rows of each step; a run of one recipe has one."""
    files = [step.metrics for step in RunDir(run).steps if step.metrics.exists()] or [RunDir(run).metrics]
    return [[row for row in read(file) if row["kind"] == "epoch"] for file in files]


def best_top1(steps: Steps) -> float | None:
    """Of the last step alone: the weights of those before it are real."""
    return max((row["val_top1"] for row in steps[-1] if "val_top1" in row), default=None)


def plot(runs: Sequence[Path], out: Path) -> Path:
    """Draws training loss (dashed, left axis) and validation top-1 (solid, right axis) of each run."""
    steps = {run: epochs_by_step(run) for run in runs}
    curves = {run: _in_a_row(run, steps[run]) for run in runs}
    out = picture_file(out)
    with canvas(out, size=(8, 5)) as losses:
        accuracies = losses.twinx()
        for index, (run, rows) in enumerate(curves.items()):
            epochs, color, dots = range(1, len(rows) + 1), f"C{index}", "." if len(rows) <= FEW else ""
            best = best_top1(steps[run])
            losses.plot(epochs, [row["train_loss"] for row in rows], f"{dots}--", color=color)
            name = run.name if len({other.name for other in runs}) == len(runs) else str(run)
            label = name if best is None else f"{name}: best {best:.2f} %"
            top1 = [row.get("val_top1", row["train_top1"]) for row in rows]  # without validation there is only training
            accuracies.plot(epochs, top1, f"{dots}-", color=color, label=label)
        losses.set_xlabel("epoch")
        losses.set_ylabel("training loss (dashed)")
        losses.set_ylim(bottom=0)
        accuracies.set_ylabel("validation top-1 in % (solid)")
        whole_numbers(losses.xaxis)
        accuracies.grid(alpha=0.3)
        losses.figure.legend(loc="outside lower center", ncols=min(2, len(curves)), frameon=False)
    return out
