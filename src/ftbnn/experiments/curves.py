"""Training curves of several variants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ftbnn.drawing import whole_numbers
from ftbnn.experiments.queue import Record
from ftbnn.experiments.result import LAST_ON_TEST

LEGEND_WIDTH = 60  # letters


def accuracy(records: Sequence[Record]) -> tuple[str, str]:
    """The split whose top-1 all of these records have of every epoch, and its key there."""
    if any("val_top1" not in row for record in records for row in record["epochs"]):
        return "training", "train_top1"
    return "test" if any(record["chosen"] == LAST_ON_TEST for record in records) else "validation", "val_top1"


def curves(axes: Any, records: Sequence[Record], labels: Mapping[str, str], *, train: bool = False) -> None:
    """Top-1 (solid, right) and training loss (dashed, left) over the epochs; the mean over a variant's records.

    Top-1 is of the validation split; of older records of the test split, and without validation of training.
    `labels` are of variants; `train` draws training top-1 (dotted) in the place of the loss.
    """
    finished = [record for record in records if not record["divergence"]]
    groups = {label: [one for one in finished if one["variant"] == variant] for variant, label in labels.items()}
    if not any(groups.values()):
        return
    accuracies = axes if train else axes.twinx()
    split, score = accuracy(finished)
    for index, (label, done) in enumerate((label, done) for label, done in groups.items() if done):
        shortest = min(len(record["epochs"]) for record in done)
        epochs, color = range(1, shortest + 1), f"C{index}"

        def mean(key: str, done: Sequence[Record] = done, count: int = shortest) -> Any:
            return np.mean([[row[key] for row in record["epochs"][:count]] for record in done], axis=0)

        top1 = mean(score)
        accuracies.plot(epochs, top1, ".-", color=color, label=f"{label}: {top1[-1]:.2f} %")
        if train:
            accuracies.plot(epochs, mean("train_top1"), ".:", color=color)
        else:
            axes.plot(epochs, mean("train_loss"), ".--", color=color)
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"top-1 in % (solid: {split}, dotted: training)" if train else "training loss (dashed)")
    if not train:
        axes.set_ylim(bottom=0)
        accuracies.set_ylabel(f"{split} top-1 in % (solid)")
    accuracies.grid(alpha=0.3)
    whole_numbers(axes.xaxis)
    _, shown = accuracies.get_legend_handles_labels()
    columns = max(1, min(3, LEGEND_WIDTH // max(map(len, shown))))  # a wider one would take its room from the axes
    accuracies.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, frameon=False, fontsize="small")
