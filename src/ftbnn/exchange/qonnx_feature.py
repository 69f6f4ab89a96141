"""A tensor of a QONNX network on its way into a file: a value of the file, and what is still to be done to its numbers.

Functions of single numbers are not carried out where they stand. In front of a convolution a chain of them that ends in
few levels is thresholds; in front of a maximum it can wait; only what reads real numbers has it written down.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ftbnn.exchange.qonnx_functions import (
    MOST_STEPS,
    MOST_THRESHOLDS,
    Domain,
    Function,
    Range,
    affine,
    apply,
    slope,
    thresholds,
    uniform,
)
from ftbnn.exchange.qonnx_node import MOST_ELEMENTS, Array, ImportRefused, Node
from ftbnn.packing.graph import Channels, Epilogue, Flatten, Operator, Pointwise, Steps, Value

Pads = tuple[int, int, int, int]  # top, left, bottom, right
NO_PADS: Pads = (0, 0, 0, 0)
NOWHERE = Node("", "", (), ())
EXACT = 2**24  # float32 holds all whole numbers up to it


@dataclass(frozen=True)
class Columns:
    """How windows are taken: sizes for rows and columns."""

    kernel: list[int]
    stride: list[int]
    dilation: list[int]


@dataclass(frozen=True, eq=False)
class Feature:
    """`shape` is without the batch. `elements` says which element of the value each one is, None: one after the other
    in the value's own shape. What is padded lies around the value's pixels and is `fill` (after the functions).
    With `columns` the shape is that of an Im2Col of it: rows, columns, and what a window of the value holds."""

    shape: tuple[int, ...]
    value: Value
    domain: Domain = field(default_factory=Domain)
    elements: Array | None = None
    functions: tuple[Function, ...] = ()
    mover: Node | None = None  # what put the elements where they are
    pads: Pads = NO_PADS
    fill: Array | None = None
    columns: Columns | None = None

    @property
    def is_open(self) -> bool:
        """Whether more than the value's elements are in it, so that only a product can read it."""
        return self.pads != NO_PADS or self.columns is not None

    @property
    def cut(self) -> int:
        """How many functions it takes to come to whole numbers for the last time; 0 if there are none."""
        return max((k + 1 for k, function in enumerate(self.functions) if self._is_whole(k, function)), default=0)

    def _is_whole(self, k: int, function: Function) -> bool:
        """Whole numbers that are limited to whole numbers are such."""
        if function.whole is not None:
            return True
        before = k > 0 and self._is_whole(k - 1, self.functions[k - 1])
        limits = function.op == "Clip" and all((it == np.round(it)).all() for it in function.constants)
        return before and (limits or function.op == "Relu")

    @property
    def order(self) -> list[int]:
        """Its axes in the order in which the value has them: by how far apart neighbours are."""
        if self.elements is None:
            return list(range(len(self.shape)))
        numbers, value = self.elements, self.value
        first = numbers[(0,) * numbers.ndim]
        apart = [np.take(numbers, min(1, side - 1), axis).flat[0] - first for axis, side in enumerate(numbers.shape)]
        single = [axis for axis, side in enumerate(numbers.shape) if side == 1]  # has no neighbours
        others = sorted((axis for axis in range(numbers.ndim) if axis not in single), key=lambda axis: -apart[axis])
        sides = (value.channels, value.height, value.width)
        if numbers.ndim == len(sides) and sides.count(1) == len(single):
            return [single.pop(0) if side == 1 else others.pop(0) for side in sides]
        return others + single

    def then(self, *functions: Function) -> "Feature":
        fill = None if self.fill is None else apply(functions, self.fill)
        return replace(self, functions=self.functions + functions, fill=fill)

    def numbers(self) -> Array:
        """Of the value's elements, in the tensor's shape."""
        return np.arange(self.value.size).reshape(self.shape) if self.elements is None else self.elements


class Writer:
    """The file's operators as they come, and what brings features into the forms that operators read."""

    def __init__(self, batch: int = 1) -> None:
        self.batch = batch  # that the network was written for: its shapes may name it
        self.operators: list[Operator] = []
        self.known: dict[tuple[Any, ...], Any] = {}

    def emit(self, operator: Operator) -> Value:
        self.operators.append(operator)
        return operator.output

    def like(self, value: Value) -> Value:
        return Value(value.channels, value.height, value.width)

    def pointwise(self, node: Node, value: Value, epilogue: Epilogue) -> Value:
        return self.emit(Pointwise(path_of(node), (value,), self.like(value), epilogue))

    def moved(self, node: Node, feature: Feature, elements: Array) -> Feature:
        """The feature with its elements in another order or shape."""
        if feature.is_open:
            raise ImportRefused(node, "it moves what was padded; only a convolution can read that")
        return replace(feature, shape=tuple(elements.shape), elements=elements, mover=node)

    def settled(self, node: Node, feature: Feature) -> Feature:
        """The same with its elements in the order of a value: channels, rows, columns."""
        if feature.elements is None:
            return feature
        shape, numbers, value = feature.shape, feature.elements, feature.value
        node = feature.mover or node
        dims = dims_of(node, shape)
        if dims == (value.channels, value.height, value.width) and is_in_order(numbers.ravel(), value.size):
            return replace(feature, elements=None)
        if dims[1] * dims[2] == 1:
            feature = self._flat(node, feature)
            source = numbers.reshape(-1)
        else:
            pixels = value.height * value.width
            rows = numbers.reshape(dims[0], -1)
            if (
                dims[1:] != (value.height, value.width)
                or (rows != rows[:, :1] // pixels * pixels + np.arange(pixels)).any()
            ):
                raise ImportRefused(node, "it moves pixels; only whole channels can be moved")
            source = rows[:, 0] // pixels
        if not is_in_order(source, feature.value.channels):
            key = ("channels", feature.value, source.tobytes())
            if key not in self.known:
                made = Channels(path_of(node), (feature.value,), Value(*dims), source=source.astype(np.int32))
                self.known[key] = self.emit(made)
            functions = tuple(function.take(source) for function in feature.functions)
            feature = replace(feature, value=self.known[key], functions=functions)
        return replace(feature, shape=shape, elements=None)

    def _flat(self, node: Node, feature: Feature) -> Feature:
        value = feature.value
        pixels = value.height * value.width
        if pixels == 1:
            return feature
        key = ("flatten", value)
        if key not in self.known:
            self.known[key] = self.emit(Flatten(path_of(node), (value,), Value(value.size, 1, 1)))
        channels = np.repeat(np.arange(value.channels), pixels)
        functions = tuple(function.take(channels) for function in feature.functions)
        return replace(feature, value=self.known[key], functions=functions)

    def per_channel(self, node: Node, feature: Feature, constant: Array) -> tuple[Feature, Array]:
        """A constant that broadcasts to the tensor, as one number for each of the value's channels; the feature is
        flat where that needs it."""
        if constant.size == 1:
            return feature, np.full(feature.value.channels, constant.ravel()[0])
        try:
            spread = np.broadcast_to(constant, (1, *feature.shape))[0]
        except ValueError:
            shapes = f"{list(constant.shape)} to {list(feature.shape)}"
            raise ImportRefused(node, f"its constant does not broadcast from {shapes}") from None
        return self.by_channel(node, feature, spread)

    def by_channel(self, node: Node, feature: Feature, spread: Array) -> tuple[Feature, Array]:
        """The same of an array of the tensor's own shape."""
        if feature.columns is not None:
            if (spread != spread.ravel()[0]).any():
                raise ImportRefused(node, "its constant differs within the windows of an Im2Col")
            return feature, np.full(feature.value.channels, spread.ravel()[0])
        if feature.pads != NO_PADS:
            top, left, bottom, right = feature.pads
            spread = spread[:, top : spread.shape[1] - bottom, left : spread.shape[2] - right]
        for attempt in (feature, None):
            held = self.settled(node, feature) if attempt is None else attempt
            numbers, size = held.numbers() if held.pads == NO_PADS else np.arange(held.value.size), held.value.size
            if numbers.size != size:  # a part of the value
                continue
            of_value = np.empty(size, spread.dtype)
            of_value[numbers.ravel()] = spread.ravel()
            rows = of_value.reshape(held.value.channels, -1)
            if (rows == rows[:, :1]).all():
                return held, rows[:, 0]
        raise ImportRefused(node, "its constant differs within a channel")

    # Levels and thresholds.
    def levels(self, node: Node, feature: Feature) -> Range:
        """The whole numbers that the chain's first `cut` functions come to."""
        low, high = -(2.0**62), 2.0**62
        for function in feature.functions[: feature.cut]:
            if function.whole is not None:
                low, high = function.whole
            elif function.op == "Clip":
                low = max(low, float(np.ceil(function.constants[0].min())))
                high = min(high, float(np.floor(function.constants[1].max())))
            elif function.op == "Relu":
                low = max(low, 0.0)
        ends = np.array([feature.domain.low, feature.domain.high], np.float32)[:, None]
        reached = apply(feature.functions[: feature.cut], np.repeat(ends, feature.value.channels, 1))
        if np.isfinite(reached).all():
            low, high = max(low, float(reached.min())), min(high, float(reached.max()))
        if not high - low <= MOST_STEPS:
            raise ImportRefused(node, f"it has more than {MOST_STEPS} levels")
        return int(low), max(int(high), int(low) + 1)

    def is_stepped(self, feature: Feature) -> bool:
        """Whether thresholds on its value say all: the chain comes to whole numbers and only rises or falls."""
        return feature.cut > 0 and slope(feature.functions[: feature.cut], feature.value.channels) is not None

    def thresholds(self, node: Node, feature: Feature, levels: Range) -> Array:
        """(channels, steps), or one row where all channels have the same."""
        key = ("thresholds", feature.value, *map(id, feature.functions[: feature.cut]), levels)
        if key not in self.known:
            chain, channels = feature.functions[: feature.cut], feature.value.channels
            one = uniform(chain)
            rows = channels if one is None else 1
            if rows * (levels[1] - levels[0]) > MOST_THRESHOLDS:
                raise ImportRefused(
                    node, f"it has {levels[1] - levels[0]} levels in {rows} channels, which is too many"
                )
            found = thresholds(chain if one is None else one, levels, feature.domain, rows)
            self.known[key] = found, feature.functions  # kept, for their ids stand in the key
        found = self.known[key][0]
        return np.asarray(found)

    def rising(self, node: Node, feature: Feature) -> Feature:
        """The same with the value's channels negated where the functions fall."""
        chain = feature.functions[: feature.cut] if self.is_stepped(feature) else feature.functions
        direction = slope(chain, feature.value.channels)
        if direction is None:
            return self.rising(node, self.grounded(node, feature))
        if (direction >= 0).all():
            return feature
        signs = np.where(direction < 0, -1.0, 1.0)
        key = ("negated", feature.value, signs.tobytes())
        if key not in self.known:
            self.known[key] = self.pointwise(node, feature.value, Epilogue(scale=signs))
        back = Function(node, "Mul", (signs.astype(np.float32),))
        reach = max(abs(feature.domain.low), abs(feature.domain.high))
        domain = replace(feature.domain, low=-reach, high=reach)
        return replace(feature, value=self.known[key], domain=domain, functions=(back, *feature.functions))

    # Numbers.
    def counted(self, node: Node, feature: Feature) -> Feature:
        """A stepped feature whose value holds its levels, counted from 0."""
        key = ("steps", feature.value, *map(id, feature.functions[: feature.cut]))
        if key not in self.known:
            rising = self.rising(node, feature)
            levels = self.levels(node, rising)
            rows = self.thresholds(node, rising, levels)
            value = self.emit(Steps(path_of(node), (rising.value,), self.like(rising.value), thresholds=rows))
            lowest = Function(node, "Add", (np.full(rising.value.channels, levels[0], np.float32),))
            self.known[key] = value, lowest, Domain(0, levels[1] - levels[0], True), feature.functions
        value, lowest, domain, _ = self.known[key]
        rest = feature.functions[feature.cut :]
        return replace(feature, value=value, domain=domain, functions=(lowest, *rest))

    def units(self, feature: Feature) -> tuple[int, float] | None:
        """(offset, unit) if the feature is unit * (whole number of its value + offset) in every channel."""
        if not feature.domain.is_whole:
            return None
        found = affine(feature.functions, feature.value.channels)
        if found is None:
            return None
        scale, shift = found
        if (scale != scale[0]).any() or (shift != shift[0]).any() or scale[0] == 0:
            return None
        offset = shift[0] / scale[0]
        return (round(offset), float(scale[0])) if abs(offset - round(offset)) < 1e-6 * max(1, abs(offset)) else None

    def stepwise(self, node: Node, feature: Feature) -> Feature:
        """The same with those functions carried out that rise and fall before whole numbers are made."""
        bends = [k + 1 for k, function in enumerate(feature.functions[: feature.cut]) if function.slope() is None]
        if not bends:
            return feature
        head = self.grounded(node, replace(feature, functions=feature.functions[: bends[-1]]))
        return replace(head, functions=feature.functions[bends[-1] :])

    def grounded(self, node: Node, feature: Feature, *, keep_units: bool = False) -> Feature:
        """The same with its functions carried out; with `keep_units`, whole numbers stay such."""
        feature = self.stepwise(node, feature)
        if self.is_stepped(feature):
            feature = self.counted(node, feature)
        if not feature.functions or (keep_units and self.units(feature) is not None):
            return feature
        key = ("grounded", feature.value, *map(id, feature.functions))
        if key not in self.known:
            value, channels = feature.value, feature.value.channels
            for function in feature.functions:
                value = self.pointwise(function.node, value, function.epilogue(channels))
            self.known[key] = value, feature.functions
        domain = self._reached(feature)
        return replace(feature, value=self.known[key][0], functions=(), domain=domain)

    def _reached(self, feature: Feature) -> Domain:
        """Whole numbers that are shifted by whole numbers are such."""
        if not feature.domain.is_whole or (found := affine(feature.functions, feature.value.channels)) is None:
            return Domain()
        scale, shift = found
        if (scale != np.round(scale)).any() or (shift != np.round(shift)).any():
            return Domain()
        ends = np.stack([scale * feature.domain.low + shift, scale * feature.domain.high + shift])
        return Domain(float(ends.min()), float(ends.max()), True) if np.abs(ends).max() < EXACT else Domain()

    def forms(self, feature: Feature) -> Iterator[Feature]:
        """The feature as all the values there are that it can be told by."""
        yield feature
        value, functions = feature.value, feature.functions
        if found := self.known.get(("grounded", value, *map(id, functions))):
            yield replace(feature, value=found[0], functions=())
        if feature.cut and (found := self.known.get(("steps", value, *map(id, functions[: feature.cut])))):
            yield from self.forms(replace(feature, value=found[0], functions=(found[1], *functions[feature.cut :])))
        for key, negated in self.known.items():
            if key[:2] == ("negated", value):
                back = Function(NOWHERE, "Mul", (np.frombuffer(key[2]).astype(np.float32),))
                yield replace(feature, value=negated, functions=(back, *functions))

    def plain(self, node: Node, feature: Feature, *, keep_units: bool = False) -> Feature:
        """Settled, unpadded and carried out."""
        if feature.is_open:
            raise ImportRefused(node, "it reads what was padded; only a convolution can")
        return self.grounded(node, self.settled(node, feature), keep_units=keep_units)


def is_in_order(numbers: Array, count: int) -> bool:
    return len(numbers) == count and bool((numbers == np.arange(count)).all())


def dims_of(node: Node, shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width of a tensor without its batch."""
    if not 1 <= len(shape) <= 3 or min(shape) < 1 or int(np.prod(shape)) > MOST_ELEMENTS:
        raise ImportRefused(node, f"it has images of the shape {list(shape)[:8]}; maps and vectors can be held")
    channels, *sides = shape
    return channels, *([1, 1] if not sides else [1, *sides] if len(sides) == 1 else sides)  # type: ignore[return-value]


def path_of(node: Node) -> str:
    return node.name or node.outputs[0]
