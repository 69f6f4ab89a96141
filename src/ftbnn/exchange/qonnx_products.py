"""Convolutions and matrices: of few levels as sums of binary convolutions, of whole numbers as such, else of floats.

An input of levels m0 < m1 < ... is m0 + sum over k of (m[k] - m[k-1]) * [x > t[k]]: as many binary convolutions of the
same weights, each with thresholds of its own, added up. Ternary weights are half the sum of two binary ones. All of
that is whole numbers, so it is exact; the scales come behind, as a function of the sum.

What surrounds the image contributes 0 to a binary convolution. A part that is the same everywhere inside of it (m0, or
what was padded with, turned round) is a binary convolution too, whose threshold every number passes.
"""

import math
from dataclasses import dataclass, replace
from itertools import product as pairs

import numpy as np

from ftbnn.exchange.qonnx_feature import EXACT, NO_PADS, Feature, Writer, path_of
from ftbnn.exchange.qonnx_functions import LARGEST, Domain, Function, apply, slope
from ftbnn.exchange.qonnx_node import Array, ImportRefused, Node
from ftbnn.packing.graph import BConv, Conv, Epilogue, Linear, Operator, RoundedConv, Value, Window

MOST_BINARY = 8  # binary convolutions that take the place of one of whole numbers
LARGEST_WINDOW = 64  # docs/format.md
WIDTHS = {8: 127, 16: 32767}  # bits: largest weight


@dataclass(frozen=True)
class Product:
    """A convolution as the file has it: weights (out, in of a group, kh, kw), the window and the output's shape."""

    node: Node
    weight: Array
    groups: int
    window: Window
    out: tuple[int, int, int]
    pads: bool  # whether windows reach beyond the image

    def value(self) -> Value:
        return Value(*self.out)


def multiply(writer: Writer, feature: Feature, product: Product) -> Feature:
    """The product of a settled feature with constant weights."""
    _check(product)
    product = _grouped(product)
    feature = writer.stepwise(product.node, feature)
    whole = whole_weights(product.weight)
    if whole is not None:
        made = _binary(writer, feature, product, *whole)
        made = made or _integer(writer, feature, product, *whole)
        if made is not None:
            return made
    return _real(writer, feature, product)


def _check(product: Product) -> None:
    window, node = product.window, product.node
    if max(*window.kernel, *window.stride) > LARGEST_WINDOW:
        raise ImportRefused(
            node, f"its kernel {window.kernel} or stride {window.stride} is larger than {LARGEST_WINDOW}"
        )
    if any(pad >= size for pad, size in zip(window.padding, window.kernel, strict=True)):
        raise ImportRefused(node, f"its padding {window.padding} is not smaller than its kernel {window.kernel}")


def _grouped(product: Product) -> Product:
    """In as many groups as there are, where all weights between them are 0: a depthwise layer that was written as a
    matrix is one again."""
    if product.groups > 1:
        return product
    outputs, inputs, *kernel = product.weight.shape
    used = (product.weight != 0).any(axis=(2, 3))
    for groups in range(math.gcd(outputs, inputs), 1, -1):
        if outputs % groups or inputs % groups:
            continue
        blocks = used.reshape(groups, outputs // groups, groups, inputs // groups).any(axis=(1, 3))
        if not (blocks & ~np.eye(groups, dtype=bool)).any():
            own = np.arange(groups)
            parts = product.weight.reshape(groups, outputs // groups, groups, inputs // groups, *kernel)
            weight = parts[own, :, own].reshape(outputs, inputs // groups, *kernel)
            return replace(product, weight=np.ascontiguousarray(weight), groups=groups)
    return product


def whole_weights(weight: Array) -> tuple[Array, Array] | None:
    """(unit of each output channel, whole numbers) that give these float32 weights exactly; None if none do."""
    rows = weight.reshape(len(weight), -1)
    sizes = np.abs(rows)
    smallest = np.where(sizes > 0, sizes, np.inf).min(1)
    smallest = np.where(np.isfinite(smallest), smallest, 1).astype(np.float32)
    for part in (1, 2, 3, 4, 5, 6, 7):  # where no weight is 1
        unit = (smallest / np.float32(part)).astype(np.float32)
        with np.errstate(over="ignore"):
            whole = np.round(rows / unit[:, None])
        if (np.abs(whole) <= WIDTHS[16]).all() and (np.float32(whole) * unit[:, None] == rows).all():
            return unit, whole.reshape(weight.shape)
    return None


def _whole_levels(levels: Array) -> tuple[float, Array] | None:
    """The same of the levels of an input, with one unit."""
    sizes = np.abs(levels[levels != 0])
    if not len(sizes):
        return 1.0, levels
    steps = np.diff(levels)
    for unit in (sizes.min(), np.abs(steps).min(initial=np.inf), np.abs(steps).min(initial=np.inf) / 2):
        if not np.isfinite(unit) or unit <= 0:
            continue
        whole = np.round(levels / unit)
        if (np.float32(whole) * np.float32(unit) == levels).all() and np.abs(whole).max() < EXACT:
            return float(unit), whole.astype(np.float64)
    return None


def _binary(writer: Writer, feature: Feature, product: Product, unit: Array, whole: Array) -> Feature | None:
    """As binary convolutions; None where that cannot be or would be too many."""
    fills = np.zeros(1) if feature.fill is None else feature.fill
    if not writer.is_stepped(feature) or np.abs(whole).max() > 1 or (fills != fills[0]).any():
        return None
    node, channels = product.node, feature.value.channels
    low, high = writer.levels(node, feature)
    is_ternary = bool((whole == 0).any())
    if (high - low) * (1 + is_ternary) > MOST_BINARY:
        return None
    rest = feature.functions[feature.cut :]
    numbers = apply(rest, np.repeat(np.arange(low, high + 1, dtype=np.float32)[:, None], channels, 1))
    if (numbers != numbers[:, :1]).any() or (found := _whole_levels(_with_fill(feature, numbers[:, 0]))) is None:
        return None
    size, levels = found
    fill = 0.0 if feature.fill is None else float(levels[-1])
    levels = levels[: len(numbers)]
    middle = (levels[0] + levels[-1]) / 2
    direction = slope(feature.functions[: feature.cut], channels)
    assert direction is not None
    rows = writer.thresholds(node, feature, (low, high)) * np.ones((channels, 1), np.float32)
    if (direction < 0).all():  # counted from the other end
        levels, rows, direction = levels[::-1], rows[:, ::-1], -direction
    zero_one = middle != fill
    if zero_one and (direction < 0).any():
        return _binary(writer, writer.rising(node, feature), product, unit, whole)
    flips = np.where(direction < 0, -1.0, 1.0)
    jumps = np.diff(levels)
    # (factor, thresholds): what is the same inside the image comes last, as the code that every number has.
    parts = [(jump if zero_one else jump / 2, rows[:, k]) for k, jump in enumerate(jumps) if jump]
    sums = whole.sum(axis=(1, 2, 3))
    shift = fill * sums
    if zero_one and levels[0] != fill:
        if product.pads:
            parts.append((levels[0] - fill, np.full(channels, -LARGEST, np.float32)))
        else:
            shift = shift + (levels[0] - fill) * sums
    planes = [(1.0, whole > 0)] if not is_ternary else [(0.5, whole > 0), (0.5, whole >= 0)]
    double = 2 if any((a * b) % 1 for (a, _), (b, _) in pairs(parts, planes)) else 1
    double = double * 2 if any((double * a * b) % 1 for (a, _), (b, _) in pairs(parts, planes)) else double
    bound = double * float(np.abs(levels).max() + abs(fill)) * float(np.abs(whole).sum(axis=(1, 2, 3)).max()) * 2
    if not parts or bound >= EXACT:
        return None
    flipped = _of_inputs(flips, product) < 0
    total: Value | None = None
    for (a, threshold), (b, positive) in pairs(parts, planes):
        factor = double * a * b
        shifts = double * shift if total is None and shift.any() else None
        scale = None if factor == 1 else np.full(product.out[0], factor)
        total = writer.emit(
            BConv(
                path_of(node),
                (feature.value,),
                product.value(),
                Epilogue(scale=scale, shift=shifts, shortcut=total),
                window=product.window,
                groups=product.groups,
                zero_one=zero_one,
                positive=(positive != flipped,),
                threshold=threshold.astype(np.float64) if threshold.any() else None,
            )
        )
    assert total is not None
    scaled = Function(node, "Scale", (unit.astype(np.float64) * size / double,))
    return Feature(_shape(feature, product), total, Domain(-bound, bound, True), functions=(scaled,))


def _with_fill(feature: Feature, numbers: Array) -> Array:
    return numbers if feature.fill is None else np.append(numbers, feature.fill[0])


def _of_inputs(numbers: Array, product: Product) -> Array:
    """A number for each input channel, where the weights have that channel."""
    outputs, inside = product.weight.shape[:2]
    group = np.arange(outputs) // (outputs // product.groups)
    spread: Array = numbers[group[:, None] * inside + np.arange(inside)][:, :, None, None]
    return spread


def _shape(feature: Feature, product: Product) -> tuple[int, ...]:
    """Of the output, with as many dimensions as the input has."""
    return product.out[:1] + product.out[1:][3 - len(feature.shape) :]


def _unpadded(feature: Feature, product: Product) -> tuple[Feature, Array | None]:
    """What is padded made 0: the rest less by it, and what that takes from each sum."""
    if feature.fill is None or not feature.fill.any():
        return replace(feature, pads=NO_PADS, fill=None), None
    fill = feature.fill[0]
    if (feature.fill != fill).any():
        raise ImportRefused(product.node, "its input is padded with other numbers in other channels")
    sums = product.weight.astype(np.float64).sum(axis=(1, 2, 3)) * float(fill)
    less = Function(product.node, "Sub", (np.full(feature.value.channels, fill, np.float32),))
    return replace(feature, pads=NO_PADS, fill=None).then(less), sums


def _integer(writer: Writer, feature: Feature, product: Product, unit: Array, whole: Array) -> Feature | None:
    """Whole numbers times whole numbers, in floats that hold them all; None where the input has none."""
    if not (feature.domain.is_whole or writer.is_stepped(feature)):
        return None
    node = product.node
    feature, sums = _unpadded(feature, product)
    held = writer.grounded(node, feature, keep_units=True)
    found = writer.units(held)
    if found is None:
        return None
    offset, size = found
    reach = max(abs(held.domain.low + offset), abs(held.domain.high + offset))
    bound = reach * float(np.abs(whole).sum(axis=(1, 2, 3)).max())
    if bound >= EXACT:
        return None
    value = held.value
    if offset:
        value = writer.pointwise(node, value, Epilogue(shift=np.full(value.channels, float(offset))))
    total = writer.emit(_whole_conv(product, value, np.ones(product.out[0]), whole))
    functions = [Function(node, "Scale", (unit.astype(np.float64) * size,))]
    if sums is not None:
        functions.append(Function(node, "Add", (sums.astype(np.float32),)))
    return Feature(_shape(feature, product), total, Domain(-bound, bound, True), functions=tuple(functions))


def _whole_conv(product: Product, value: Value, unit: Array, whole: Array) -> Operator:
    bits = next(bits for bits, most in WIDTHS.items() if np.abs(whole).max() <= most)
    return RoundedConv(
        path_of(product.node),
        (value,),
        product.value(),
        Epilogue(),
        window=product.window,
        groups=product.groups,
        bits=bits,
        integers=(whole.astype(f"i{bits // 8}"),),
        unit=unit.astype(np.float64),
    )


def _real(writer: Writer, feature: Feature, product: Product) -> Feature:
    feature, sums = _unpadded(feature, product)
    node = product.node
    value = writer.grounded(node, feature).value
    whole = whole_weights(product.weight)
    made: Operator
    if whole is not None and np.abs(whole[1]).max() <= WIDTHS[16]:
        made = _whole_conv(product, value, *whole)
    elif value.height * value.width == 1 and product.window.kernel == (1, 1) and product.groups == 1:
        made = Linear(path_of(node), (value,), product.value(), weight=product.weight[:, :, 0, 0])
    else:
        weights = (product.weight,)
        made = Conv(
            path_of(node), (value,), product.value(), window=product.window, groups=product.groups, weights=weights
        )
    total = Feature(_shape(feature, product), writer.emit(made))
    return total if sums is None else total.then(Function(node, "Add", (sums.astype(np.float32),)))
