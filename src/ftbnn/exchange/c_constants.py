"""Arrays as constants of a C file, equal ones once."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

WIDTH = 120
WORD_BITS = 32  # of the numbers as written; a C program may read two at a time


class Constants:
    """Grows as arrays are asked for; each answer is a name."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.size_bytes = 0
        self._names: dict[tuple[str, bytes], str] = {}

    def floats(self, numbers: NDArray[np.floating] | None) -> str | None:
        if numbers is None:
            return None
        exact = numbers.astype(np.float32)
        return self._add("float", "numbers", exact, (f"{float(number).hex()}f" for number in exact.ravel()))

    def integers(self, numbers: NDArray[np.integer]) -> str:
        """As wide as the array's type."""
        return self._add(f"{numbers.dtype}_t", "limits", numbers, (str(number) for number in numbers.ravel()))

    def bits(self, streams: Sequence[NDArray[np.bool_]]) -> str:
        """Each row of each array a stream of its own, from a word's first bit on."""
        words = [_words(part) for part in streams]
        texts = (text for part in words for row in part for text in _pairs(row))
        return self._add("ftbnn_word", "weights", np.concatenate([part.ravel() for part in words]), texts)

    def _add(self, kind: str, what: str, numbers: NDArray[np.generic], texts: Iterable[str]) -> str:
        key = kind, numbers.tobytes()
        if key not in self._names:
            name = self._names[key] = f"{what}_{len(self._names)}"
            self.size_bytes += numbers.nbytes
            self.texts.append(f"static const {kind} {name}[] = {{\n{lines(texts)}\n}};\n")
        return self._names[key]


def _words(bits: NDArray[np.bool_]) -> NDArray[np.uint32]:
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % WORD_BITS)))
    words: NDArray[np.uint32] = np.packbits(padded, axis=1, bitorder="little").view("<u4")
    return words


def _pairs(row: NDArray[np.uint32]) -> Iterable[str]:
    for low, high in zip(row[::2], row[1::2], strict=False):
        yield f"FTBNN_PAIR({low:#010x}u, {high:#010x}u)"
    if len(row) % 2:
        yield f"FTBNN_HALF({row[-1]:#010x}u)"


def lines(items: Iterable[str]) -> str:
    """Separated by commas, as many as fit a line."""
    rows, row = [], " "
    for item in items:
        if len(row) + len(item) + 2 > WIDTH:
            rows.append(row)
            row = " "
        row += f" {item},"
    return "\n".join([*rows, row]).removesuffix(",")
