"""Which classes a network tells apart worst, and what it takes them for."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORST = 3


def worst_classes(confusion: NDArray[np.int64], names: Sequence[str]) -> list[dict[str, Any]]:
    """The classes with the least accuracy of a matrix (label, answer), and where most of their mistakes went.

    A class without images, or without a mistake, is none of them.
    """
    images, right = confusion.sum(1), confusion.diagonal()
    seen = [k for k in range(len(confusion)) if right[k] < images[k]]
    found = []
    for label in sorted(seen, key=lambda k: (right[k] / images[k], k))[:WORST]:
        mistakes = confusion[label].copy()
        mistakes[label] = 0
        taken = int(mistakes.argmax())
        found.append(
            {
                "class": _name(names, label),
                "top1": 100 * float(right[label] / images[label]),
                "taken_for": _name(names, taken),
                "share": 100 * float(mistakes[taken] / images[label]),
            }
        )
    return found


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else str(number)
