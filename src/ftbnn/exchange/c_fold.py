"""Comparisons of whole numbers in place of floats: for each channel, those sums whose code is 1.

Nothing is solved: the floats are computed for every sum there can be, as the C program and the engine's portable
kernels compute them, each operation rounded to float32. Where the sums with code 1 are neighbours, two whole numbers
say the same.
"""

import numpy as np
from numpy.typing import NDArray

from ftbnn.exchange.c_forms import Code
from ftbnn.packing.graph import BConv, Epilogue

MOST_SUMS = 1 << 15
COMPUTED = ("none", "relu", "prelu", "fprelu", "clamp")
Floats = NDArray[np.float32]
Limits = tuple[NDArray[np.int32], NDArray[np.int32]]


def limits_of(operator: BConv, code: Code) -> Limits | None:
    """The smallest and the largest sum of each channel whose code is 1, or None where numbers have to be made."""
    if operator.epilogue.shortcut is not None or operator.epilogue.act not in COMPUTED:
        return None
    most = max(part[0].size for part in operator.positive)
    if 2 * most >= MOST_SUMS:
        return None
    sums = np.arange(-most, most + 1, dtype=np.float32)
    low, high = (np.empty(operator.output.channels, np.int32) for _ in range(2))
    for channel in range(operator.output.channels):
        y = end_of(operator.epilogue, channel, sums)
        threshold = np.float32(0) if code.numbers is None else code.numbers[channel]
        found = np.flatnonzero(y > threshold)
        if not len(found):
            low[channel], high[channel] = 1, 0
            continue
        if found[-1] - found[0] + 1 != len(found):
            return None
        low[channel], high[channel] = found[0] - most, found[-1] - most
    return low, high


def end_of(
    end: Epilogue, channel: int, acc: Floats, scale: np.float32 | None = None, shift: np.float32 | None = None
) -> Floats:
    """The epilogue of one channel in float32, with another scale and shift where they are given."""

    def number(numbers: NDArray[np.float64] | None, absent: float) -> np.float32:
        found: np.float32 = np.float32(absent if numbers is None else numbers[channel])
        return found

    with np.errstate(over="ignore", invalid="ignore"):
        factor = number(end.scale, 1) if scale is None else scale
        y: Floats = factor * acc + (number(end.shift, 0) if shift is None else shift)
        if end.has_pieces:
            y = y * np.where(y > 0, number(end.first_right, 1), number(end.first_left, 1))
        if end.act == "relu":
            y = np.where(y > 0, y, np.float32(0))
        elif end.act == "prelu":
            y = np.where(y > 0, y, number(end.left, 1) * y)
        elif end.act == "fprelu":
            y = y * np.where(y > 0, number(end.right, 1), number(end.left, 1))
        elif end.act == "clamp":
            y = np.where(y < np.float32(end.low), np.float32(end.low), np.where(y > end.high, np.float32(end.high), y))
        return y if end.after is None else np.add(y, number(end.after, 0))


def is_rising(end: Epilogue, channels: int) -> NDArray[np.bool_] | None:
    """Of each channel, whether what follows the scale rises with it (else it falls); None where it does both."""
    if end.act not in COMPUTED:
        return None
    ones = np.ones(channels)
    rising = ones > 0
    for pair in ((end.left, end.right), (end.first_left, end.first_right)):
        left, right = (ones if slopes is None else slopes for slopes in pair)
        rises, falls = (left >= 0) & (right >= 0), (left <= 0) & (right <= 0)
        if not (rises | falls).all():
            return None
        rising = rising == rises
    return rising


def pixel_limits(scale: Floats, shift: Floats, code: Code) -> NDArray[np.int16] | None:
    """For each channel of an 8-bit image the pixel above which the code is 1; None where it is not so."""
    thresholds = np.zeros(len(scale), np.float32) if code.numbers is None else code.numbers
    pixels = np.arange(256, dtype=np.float32)
    limits = []
    for factor, offset, threshold in zip(scale, shift, thresholds, strict=True):
        is_one = factor * pixels + offset > threshold
        first = 255 - int(is_one.sum())
        if not np.array_equal(is_one, pixels > first):
            return None
        limits.append(first)
    return np.array(limits, np.int16)
