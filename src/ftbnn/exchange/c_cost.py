"""What a C program does for one image.

Of floats every product, sum, quotient, comparison and conversion is one operation: each is a call where there is no
FPU. A curve (sigmoid and others) is taken for CURVE of them.
"""

from dataclasses import astuple, dataclass

import numpy as np

from ftbnn.exchange.c_forms import Step
from ftbnn.packing.graph import (
    AverageTo,
    AvgPool,
    BConv,
    Combine,
    Conv,
    Fused,
    Linear,
    Map,
    MaxPool,
    Operator,
    Pointwise,
    RoundedConv,
    Steps,
    Value,
)

CURVE = 20
ACTS = {"none": 0, "relu": 1, "prelu": 2, "fprelu": 2, "clamp": 2}


@dataclass(frozen=True)
class Operations:
    """`binary` are products of two bits, `words` the words of 32 bits whose ones are counted for them, `whole` products
    of whole numbers."""

    floats: int = 0
    binary: int = 0
    words: int = 0
    whole: int = 0

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def operations_of(step: Step, *, in_whole_numbers: bool, is_stem: bool) -> Operations:
    """Of a step (the image is one too); `in_whole_numbers`: its codes come of comparing whole numbers."""
    operator, size = step.operator, step.output.size
    binary = _binary(operator) if isinstance(operator, BConv) else Operations()
    if is_stem:
        assert isinstance(operator, RoundedConv)
        channels = operator.inputs[0].channels
        binary = Operations(whole=_products(operator))
        if not in_whole_numbers:  # of each channel's sum a conversion, of all but the first a product and a sum
            floats = (3 * channels - 2 + _tail(operator) + len(step.codes)) * size
            return binary + Operations(floats)
    if in_whole_numbers or step.in_codes:
        return binary
    floats = len(step.codes) * size
    if operator is None:  # converted, multiplied, shifted
        floats += 3 * size
    elif isinstance(operator, Fused):
        floats += _sums(operator) + _tail(operator) * size
    elif isinstance(operator, Combine | Map):
        floats += size
    elif isinstance(operator, Steps):  # comparisons of a search, and the count as a number
        floats += (operator.count.bit_length() + 1) * size
    elif isinstance(operator, MaxPool | AvgPool | AverageTo):
        floats += _taps(operator) * operator.output.channels + (0 if isinstance(operator, MaxPool) else size)
    return binary + Operations(floats)


def _binary(operator: BConv) -> Operations:
    output = operator.output
    rows = [(len(part), part[0].size) for part in operator.positive]
    words = output.height * output.width * sum(channels * -(-bits // 32) for channels, bits in rows)
    return Operations(0, _taps(operator) * sum(part.shape[0] * part.shape[1] for part in operator.positive), words)


def _sums(operator: Fused) -> int:
    if isinstance(operator, Conv):
        return 2 * _products(operator)
    if isinstance(operator, RoundedConv):  # a weight is converted and multiplied with its unit too
        return 4 * _products(operator)
    if isinstance(operator, Linear):
        return 2 * int(operator.weight.size)
    return 0 if isinstance(operator, Pointwise) else operator.output.size  # a binary convolution's are converted


def _products(operator: Conv | RoundedConv) -> int:
    parts = operator.integers if isinstance(operator, RoundedConv) else operator.weights
    return _taps(operator) * sum(int(part.shape[0] * part.shape[1]) for part in parts)


def _tail(operator: Fused) -> int:
    end = operator.epilogue
    acts = ACTS.get(end.act, CURVE) + (ACTS["fprelu"] if end.has_pieces else 0)
    return 1 + acts + sum(it is not None for it in (end.scale, end.shortcut, end.after))


def _taps(operator: Operator) -> int:
    """Taps inside the map, of all positions of the output."""
    value, output = operator.inputs[0], operator.output
    return _inside(operator, value, output, 0) * _inside(operator, value, output, 1)


def _inside(operator: Operator, value: Value, output: Value, axis: int) -> int:
    size, outputs = ((v.height, v.width)[axis] for v in (value, output))
    at = np.arange(outputs)
    if isinstance(operator, AverageTo):
        first, last = at * size // outputs, -(-(at + 1) * size // outputs)
    else:
        window = operator.window  # type: ignore[attr-defined]
        first = at * window.stride[axis] - window.padding[axis]
        last = first + window.kernel[axis]
    return int((np.minimum(last, size) - np.maximum(first, 0)).sum())
