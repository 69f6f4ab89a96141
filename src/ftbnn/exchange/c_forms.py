"""Which values a C program keeps, and as what: real numbers, or codes, which take a bit each.

Numbers that only signs read are not made. What lies between a binary convolution and the next one's sign is then whole
numbers and bits: a sum is compared with whole numbers, a max-pool is an OR, and channels move as bits. All of that is
exact: the codes are those that the floats would have given.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ftbnn.packing.graph import BConv, Channels, Concat, Flatten, Fused, Graph, MaxPool, Operator, Value

Threshold = NDArray[np.float32] | None  # None: 0 for every channel


@dataclass(frozen=True)
class Code:
    """A value's codes: bit 1 where x > threshold[c]."""

    value: Value
    threshold: bytes = b""  # float32, a number per channel; none: 0

    @property
    def numbers(self) -> Threshold:
        return np.frombuffer(self.threshold, "<f4") if self.threshold else None


def code_of(value: Value, threshold: Threshold) -> Code:
    return Code(value, b"" if threshold is None or not threshold.any() else threshold.astype("<f4").tobytes())


@dataclass(frozen=True)
class Step:
    """An operator, what of its output it writes, and whether it works on codes alone."""

    operator: Operator | None  # None: the image
    output: Value
    real: bool
    codes: tuple[Code, ...]  # the first as it goes, others from the real numbers
    reads: tuple[Value | Code, ...]
    in_codes: bool = False  # reads codes and writes codes, no number

    def writes(self) -> Iterator[Value | Code]:
        if self.real:
            yield self.output
        yield from self.codes


def steps_of(graph: Graph) -> list[Step]:
    """From the image to the last operator; those whose output nobody reads are left out."""
    real, codes = {graph.output}, defaultdict[Value, list[Code]](list)
    steps: list[Step] = []
    for operator in reversed(graph.operators):
        value = operator.output
        if value not in real and not codes[value]:
            continue
        if len(codes[value]) > 1:
            real.add(value)
        reads, in_codes = _reads(operator, codes[value], is_real=value in real)
        for read in reads:
            if isinstance(read, Value):
                real.add(read)
            elif read not in codes[read.value]:
                codes[read.value].append(read)
        steps.append(Step(operator, value, value in real, tuple(codes[value]), reads, in_codes))
    image = graph.input
    is_real = image in real or len(codes[image]) > 1
    steps.append(Step(None, image, is_real, tuple(codes[image]), ()))
    return steps[::-1]


def _reads(operator: Operator, codes: list[Code], *, is_real: bool) -> tuple[tuple[Value | Code, ...], bool]:
    if isinstance(operator, BConv):
        threshold = operator.threshold
        read = code_of(operator.inputs[0], None if threshold is None else threshold.astype(np.float32))
        shortcut = operator.epilogue.shortcut
        return ((read,) if shortcut is None else (read, shortcut)), False
    if not is_real and not isinstance(operator, Fused) and (found := _codes_read(operator, codes[0])) is not None:
        return found, True
    return tuple(operator.reads()), False


def _codes_read(operator: Operator, wanted: Code) -> tuple[Code, ...] | None:
    """The codes of the inputs that the wanted codes are made of; None where they must be made of numbers."""
    threshold, value = wanted.numbers, operator.inputs[0]
    if isinstance(operator, MaxPool):
        return (code_of(value, threshold),)
    if isinstance(operator, Concat):
        ends = np.cumsum([part.channels for part in operator.inputs])[:-1]
        parts: list[Threshold] = [None] * len(operator.inputs)
        if threshold is not None:
            parts = list(np.split(threshold, ends))
        return tuple(code_of(part, numbers) for part, numbers in zip(operator.inputs, parts, strict=True))
    if isinstance(operator, Channels):
        return _of_channels(value, operator.source, threshold)
    if isinstance(operator, Flatten):
        return _of_channels(value, np.repeat(np.arange(value.channels), value.height * value.width), threshold)
    return None


def _of_channels(value: Value, source: NDArray[np.integer], threshold: Threshold) -> tuple[Code, ...] | None:
    """Where output channel c is of channel source[c], and all of one channel are compared with the same number."""
    if threshold is None:
        return (code_of(value, None),)
    numbers = np.zeros(value.channels, np.float32)
    numbers[source] = threshold
    return (code_of(value, numbers),) if np.array_equal(numbers[source], threshold) else None
