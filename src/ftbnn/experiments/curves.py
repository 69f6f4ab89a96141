"""Training curves of several variants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def curves(axes: Any, groups: Mapping[str, Sequence[dict[str, Any]]], *, train: bool = False) -> None:
    """Test top-1 (solid, right) and training loss (dashed, left) over the epochs; the mean over a group's records.

    `train` draws training top-1 (dotted) in the place of the loss.
    """
    accuracies = axes if train else axes.twinx()
    for index, (label, records) in enumerate(groups.items()):
        shortest = min(len(record["epochs"]) for record in records)
        epochs, color = range(1, shortest + 1), f"C{index}"

        def mean(key: str, records: Sequence[dict[str, Any]] = records, count: int = shortest) -> Any:
            return np.mean([[row[key] for row in record["epochs"][:count]] for record in records], axis=0)

        tests = mean("val_top1")
        accuracies.plot(epochs, tests, ".-", color=color, label=f"{label}: {tests[-1]:.2f} %")
        if train:
            accuracies.plot(epochs, mean("train_top1"), ".:", color=color)
        else:
            axes.plot(epochs, mean("train_loss"), ".--", color=color)
    axes.set_xlabel("epoch")
    axes.set_ylabel("top-1 in % (solid: test, dotted: training)" if train else "training loss (dashed)")
    if not train:
        axes.set_ylim(bottom=0)
        accuracies.set_ylabel("test top-1 in % (solid)")
    accuracies.grid(alpha=0.3)
    axes.xaxis.get_major_locator().set_params(integer=True)
    accuracies.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize="small")
