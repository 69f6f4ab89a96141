"""Where values lie in one block of memory: what is dead makes room, and an output may run into its own input.

An operator that goes through its input from front to back may write over what it has read. Its *lead* says how far the
input must start behind the output for that: so many elements, or, where it is negative, before it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ftbnn.packing.graph import AverageTo, Combine, Flatten, Map, Operator, Pointwise, Steps, Value, Window

ROUNDS, ENOUGH = 40, 2_000_000  # orders to try after each other, and comparisons for all of them


@dataclass(eq=False)
class Buffer:
    """A value in memory from step `born` to step `dies`, both included, in elements from `offset` on."""

    size: int
    born: int
    dies: int
    leads: dict["Buffer", int] = field(default_factory=dict)  # of the inputs of the step that makes it
    offset: int = 0

    def lives_with(self, other: "Buffer") -> bool:
        return self.born <= other.dies and other.born <= self.dies


# An output before its input, so that the input can make way: mostly the last first.
ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda buffer: (-buffer.born,),
    lambda buffer: (-buffer.size, -buffer.born),
    lambda buffer: (-buffer.size * (1 + buffer.dies - buffer.born), -buffer.born),
    lambda buffer: (buffer.born,),
)


def place(buffers: Sequence[Buffer]) -> int:
    """Gives every buffer its offset and returns how many elements they take: each to the lowest free place, in several
    orders, in which the one that reached highest then comes first."""
    best, offsets = math.inf, dict[Buffer, int]()
    for key in ORDERS:
        order = sorted(buffers, key=key)
        for _ in range(min(ROUNDS, 1 + ENOUGH // (len(buffers) ** 3 + 1))):
            at = _place_in_order(order)
            reach = max((at[buffer] + buffer.size for buffer in order), default=0)
            if reach < best:
                best, offsets = reach, at
            order.sort(key=lambda buffer: at[buffer] + buffer.size < reach)
    for buffer, offset in offsets.items():
        buffer.offset = offset
    return int(best)


def _place_in_order(order: Sequence[Buffer]) -> dict[Buffer, int]:
    at: dict[Buffer, int] = {}
    for buffer in order:
        others = [other for other in at if buffer.lives_with(other)]
        places = {0} | {at[other] + other.size for other in others}
        places |= {at[other] - buffer.leads[other] for other in others if other in buffer.leads}
        places |= {at[other] + other.leads[buffer] for other in others if buffer in other.leads}
        at[buffer] = min(p for p in places if p >= 0 and all(_fits(buffer, p, other, at[other]) for other in others))
    return at


def _fits(buffer: Buffer, place: int, other: Buffer, taken: int) -> bool:
    if place + buffer.size <= taken or taken + other.size <= place:
        return True
    if other in buffer.leads and other.dies == buffer.born:
        return taken - place >= buffer.leads[other]
    if buffer in other.leads and buffer.dies == other.born:
        return place - taken >= other.leads[buffer]
    return False


def lead(operator: Operator, value: Value) -> int:
    """Of an operator's input. What is read element by element as the output is written, as shortcuts are, has none."""
    output = operator.output
    if isinstance(operator, Pointwise | Steps | Combine | Map):
        return 0
    if isinstance(operator, Flatten):
        positions = value.height * value.width
        first = np.arange(value.channels)[:, None] + value.channels * np.arange(positions)[None, :]
        return _lead_of(first.ravel(), 1)
    rows, columns = _starts(operator, value)
    first = (rows[:, None] * value.width + columns[None, :]).ravel() * value.channels
    return _lead_of(first, output.channels)


def _lead_of(first: NDArray[np.int64], chunk: int) -> int:
    """Where output comes in chunks, each of which needs its input from `first` on."""
    still_needed = np.minimum.accumulate(first[::-1])[::-1]
    return int((chunk * np.arange(1, len(first) + 1) - still_needed).max())


def _starts(operator: Operator, value: Value) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first row and column that each row and column of the output reads."""
    output = operator.output
    y, x = np.arange(output.height), np.arange(output.width)
    if isinstance(operator, AverageTo):
        return y * value.height // output.height, x * value.width // output.width
    window: Window | None = getattr(operator, "window", None)
    if window is None:
        return y, x
    return (
        np.maximum(y * window.stride[0] - window.padding[0], 0),
        np.maximum(x * window.stride[1] - window.padding[1], 0),
    )
