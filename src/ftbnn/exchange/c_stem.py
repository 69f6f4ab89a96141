"""The convolution of an 8-bit image in whole numbers, as the engine's portable kernels do it (native/kernels/stem).

Constants are computed as they are there: in float64, rounded once to float32.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ftbnn.exchange.c_fold import Limits, end_of, is_rising
from ftbnn.exchange.c_forms import Code, Step
from ftbnn.packing.graph import Graph, RoundedConv

Floats = NDArray[np.float32]
MOST_TAPS = 0x7FFFFFFF // 255 // 32767  # whose sum fits 32 bits
MOST_CHANNELS = 64
MOST_OFFSETS = 1 << 20
PANEL = 32
EXACT = 1 << 24


@dataclass(frozen=True)
class Stem:
    """`rows` and `columns` are the classes of border of the output's; an offset's class is their sum."""

    operator: RoundedConv
    order: NDArray[np.uint8]
    ratio: Floats | None  # None: channels are scaled alike, and their sums are one
    scale: Floats
    offsets: Floats  # [class][out]
    rows: NDArray[np.uint16]
    columns: NDArray[np.uint16]
    most: int  # no sum is larger

    def limits(self, code: Code) -> Limits | None:
        """For each class and channel the sums whose code is 1; None where it takes floats to say."""
        operator, end = self.operator, self.operator.epilogue
        rising = is_rising(end, operator.output.channels)
        if self.ratio is not None or self.most >= EXACT or end.shortcut is not None or rising is None:
            return None
        thresholds = np.zeros(operator.output.channels, np.float32) if code.numbers is None else code.numbers
        classes = len(self.offsets)
        low, high = (np.empty((classes, operator.output.channels), np.int32) for _ in range(2))
        for channel in range(operator.output.channels):
            rises = rising[channel] == (self.scale[channel] >= 0)
            for kind in range(classes):
                first = self._first(channel, kind, float(thresholds[channel]), is_one=bool(rises))
                low[kind, channel], high[kind, channel] = (first, self.most) if rises else (-self.most, first - 1)
        return low, high

    def _first(self, channel: int, kind: int, threshold: float, *, is_one: bool) -> int:
        """The smallest sum whose code is `is_one`; all behind it have that code too."""
        low, high = -self.most, self.most + 1
        while low < high:
            middle = (low + high) // 2
            acc = np.array([middle], np.float32)
            y = end_of(self.operator.epilogue, channel, acc, self.scale[channel], self.offsets[kind, channel])
            if bool(y[0] > np.float32(threshold)) == is_one:
                high = middle
            else:
                low = middle + 1
        return low


def stem_of(graph: Graph, step: Step, scale: Floats, shift: Floats) -> Stem | None:
    """The first step as a stem of whole numbers, where the engine would do it so too."""
    operator = step.operator
    readers = sum(list(other.reads()).count(graph.input) for other in graph.operators)
    if not isinstance(operator, RoundedConv) or operator.inputs[0] is not graph.input or readers != 1:
        return None
    value, out, window = operator.inputs[0], operator.output, operator.window
    taps = math.prod(window.kernel)
    classes = [min(count, 2 * size + 1) for count, size in zip((out.height, out.width), window.kernel, strict=True)]
    offsets = -(-out.channels // PANEL) * PANEL * math.prod(classes)
    if (
        operator.groups != 1
        or window.kernel[1] == 1
        or value.channels > MOST_CHANNELS
        or taps > MOST_TAPS
        or offsets > MOST_OFFSETS
    ):
        return None
    order = np.arange(value.channels)
    largest_at = int(np.argmax(np.abs(scale)))
    order[[0, largest_at]] = order[[largest_at, 0]]
    largest = float(scale[largest_at])
    ratio = np.array([0.0 if largest == 0 else float(scale[c]) / largest for c in order], np.float32)
    outer = np.ones(out.channels) if operator.epilogue.scale is None else _f32(operator.epilogue.scale)
    whole = operator.integers[0].reshape(out.channels, -1).astype(np.int64)
    made, rows, columns = _offsets(operator, shift)
    return Stem(
        operator,
        order.astype(np.uint8),
        None if (ratio == 1).all() else ratio,
        (outer.astype(np.float64) * _f32(operator.unit).astype(np.float64) * largest).astype(np.float32),
        made,
        rows,
        columns,
        255 * int(np.abs(whole).sum(1).max()),
    )


def _f32(numbers: NDArray[np.floating]) -> Floats:
    return numbers.astype(np.float32)


def _offsets(operator: RoundedConv, shift: Floats) -> tuple[Floats, NDArray[np.uint16], NDArray[np.uint16]]:
    """What padding after pixels are shifted leaves of the shift, [class][out], and the classes of rows and columns."""
    value, out, window = operator.inputs[0], operator.output, operator.window
    sizes = (value.height, value.width), (out.height, out.width)
    of, kinds = [], []
    for axis in range(2):
        start = np.arange(sizes[1][axis]) * window.stride[axis] - window.padding[axis]
        first, last = np.maximum(-start, 0), np.minimum(sizes[0][axis] - start, window.kernel[axis])
        spans = list(zip(first.tolist(), last.tolist(), strict=True))
        seen = list(dict.fromkeys(spans))
        kinds.append(seen)
        of.append(np.array([seen.index(span) for span in spans]))
    weights = operator.weights[0].astype(np.float64)
    end = operator.epilogue
    outer = np.ones(out.channels) if end.scale is None else _f32(end.scale).astype(np.float64)
    bias = np.zeros(out.channels) if end.shift is None else _f32(end.shift).astype(np.float64)
    table = []
    for top, bottom in kinds[0]:
        for left, right in kinds[1]:
            constant = np.zeros(out.channels)
            for channel in range(value.channels):  # in the engine's order
                for ky in range(top, bottom):
                    for kx in range(left, right):
                        constant += weights[:, channel, ky, kx] * float(shift[channel])
            table.append(_f32(outer * constant + bias))
    return np.stack(table), (of[0] * len(kinds[1])).astype(np.uint16), of[1].astype(np.uint16)
