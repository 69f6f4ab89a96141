"""A rule for each operator of QONNX: from the features that it reads to the feature that it writes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ftbnn.exchange import qonnx_reference as reference
from ftbnn.exchange.qonnx_feature import EXACT, NO_PADS, Columns, Feature, Writer, dims_of, path_of
from ftbnn.exchange.qonnx_functions import Domain, Function, slope
from ftbnn.exchange.qonnx_node import Array, ImportRefused, Node
from ftbnn.exchange.qonnx_products import LARGEST_WINDOW, Product, multiply
from ftbnn.packing.graph import AverageTo, AvgPool, Combine, Concat, Epilogue, Map, MaxPool, Value, Window

Operand = Feature | Array | None


@dataclass(frozen=True)
class Call:
    """A node and what it reads: features, constants, or None where an input is left out."""

    node: Node
    inputs: tuple[Operand, ...]
    writer: Writer

    def __getitem__(self, k: int) -> Operand:
        return self.inputs[k] if k < len(self.inputs) else None

    @property
    def x(self) -> Feature:
        return self.feature(0)

    def feature(self, k: int) -> Feature:
        found = self[k]
        if not isinstance(found, Feature):
            raise self.refuse("its first input is a constant")
        return found

    def constant(self, k: int) -> Array:
        found = self.maybe(k)
        if found is None:
            raise self.refuse(f"it lacks its input {k + 1}")
        return found

    def maybe(self, k: int) -> Array | None:
        found = self[k]
        if isinstance(found, Feature):
            raise self.refuse("it reads two tensors that depend on the image where one must be constant")
        return found

    def refuse(self, reason: str) -> ImportRefused:
        return ImportRefused(self.node, reason)

    def function(self, feature: Feature, op: str, *constants: Array, **more: Any) -> Feature:
        """The feature with a function behind it, whose constants broadcast to the tensor."""
        held = feature
        for constant in constants:  # until it is flat, where one of them needs that
            held = self.writer.per_channel(self.node, held, constant)[0]
        numbers = tuple(self.writer.per_channel(self.node, held, np.asarray(it, np.float32))[1] for it in constants)
        return held.then(Function(self.node, op, numbers, **more))


def _same(call: Call) -> Feature:
    return call.x


def _plain(op: str) -> Callable[[Call], Feature]:
    return lambda call: call.function(call.x, op)


def _whole(op: str, low: float = -(2.0**62), high: float = 2.0**62) -> Callable[[Call], Feature]:
    return lambda call: call.function(call.x, op, whole=(low, high))


# Arithmetic.
def _with_constant(op: str) -> Callable[[Call], Feature]:
    def rule(call: Call) -> Feature:
        first, second = call[0], call[1]
        if isinstance(first, Feature) and isinstance(second, Feature):
            return _two(call, op, first, second)
        if op == "Mul" and (made := _by_position(call)) is not None:
            return made
        if isinstance(first, Feature):
            return call.function(_spread(call, first, call.constant(1)), op, call.constant(1))
        assert isinstance(second, Feature)
        if op == "Div":
            raise call.refuse("it divides by a tensor that depends on the image")
        return call.function(_spread(call, second, call.constant(0)), op, call.constant(0), is_second=True)

    return rule


def _spread(call: Call, feature: Feature, constant: Array) -> Feature:
    if np.broadcast_shapes(constant.shape, (1, *feature.shape)) != (1, *feature.shape):
        raise call.refuse("its constant is larger than the tensor")
    return feature


def _by_position(call: Call) -> Feature | None:
    """A product with constants that are the same for all channels and differ between pixels."""
    (x,) = (it for it in call.inputs if isinstance(it, Feature))
    (constant,) = (it for it in call.inputs if isinstance(it, np.ndarray))
    if len(x.shape) != 3 or constant.ndim < 2 or max(constant.shape[-2:]) == 1 or constant.size > x.value.size:
        return None
    _spread(call, x, constant)
    factors = np.broadcast_to(constant, (1, *x.shape))[0]
    if (factors != factors[:1]).any():
        return None
    plain = call.writer.plain(call.node, x)
    value = call.writer.like(plain.value)
    return Feature(x.shape, call.writer.emit(Map(path_of(call.node), (plain.value,), value, factors=factors[0])))


def _combined(call: Call, first: Feature, second: Feature, *, is_sum: bool) -> Feature:
    """A sum or product of two tensors, of which one may have one channel or one pixel for all of the other's."""
    if first.value.size < second.value.size:
        first, second = second, first
    if np.broadcast_shapes((1, *first.shape), (1, *second.shape)) != (1, *first.shape):
        raise call.refuse("each of its tensors is larger than the other somewhere")
    first, second = (call.writer.plain(call.node, it) for it in (first, second))
    dims = dims_of(call.node, [*[1] * (len(first.shape) - len(second.shape)), *second.shape])
    large = first.value
    if dims[0] not in (1, large.channels) or dims[1:] not in ((1, 1), (large.height, large.width)):
        raise call.refuse(f"it spreads {list(second.shape)} over {list(first.shape)}")
    if dims != (second.value.channels, second.value.height, second.value.width):
        raise call.refuse("it spreads a vector along pixels")
    made = Combine(path_of(call.node), (large, second.value), call.writer.like(large), is_sum=is_sum)
    return Feature(first.shape, call.writer.emit(made))


def _two(call: Call, op: str, first: Feature, second: Feature) -> Feature:
    """Both with the axes in the order that the larger has as a value."""
    if first.is_open or second.is_open:
        raise call.refuse("it reads what was padded; only a convolution can")
    rank = max(len(first.shape), len(second.shape))
    order = (first if first.value.size >= second.value.size else second).order
    if order == list(range(rank)):
        return _summed(call, op, first, second)
    first, second = (
        call.writer.moved(call.node, it, it.numbers()[(None,) * (rank - len(it.shape))].transpose(order))
        for it in (first, second)
    )
    made = _summed(call, op, first, second)
    return call.writer.moved(call.node, made, made.numbers().transpose(np.argsort(order)))


def _summed(call: Call, op: str, first: Feature, second: Feature) -> Feature:
    """Or multiplied."""
    if op == "Div":
        raise call.refuse("it divides by a tensor that depends on the image")
    writer, node = call.writer, call.node
    if op == "Sub":
        second = call.function(second, "Neg")
    if op == "Mul" or first.shape != second.shape:
        return _combined(call, first, second, is_sum=op != "Mul")
    if first is second:
        return call.function(first, "Mul", np.array(2.0))
    first, second = (writer.plain(node, it, keep_units=True) for it in (first, second))
    units = writer.units(first), writer.units(second)
    functions: tuple[Function, ...] = ()
    domain = Domain()
    if units[0] is not None and units[1] is not None and units[0][1] == units[1][1] and first.functions:
        low, high = first.domain.low + second.domain.low, first.domain.high + second.domain.high
        if max(abs(low), abs(high)) < EXACT:
            domain = Domain(low, high, True)
            channels = first.value.channels
            offset = np.full(channels, units[0][0] + units[1][0], np.float32)
            unit = np.full(channels, units[0][1])
            functions = Function(node, "Add", (offset,)), Function(node, "Scale", (unit,))
    if not functions:
        first, second = (writer.plain(node, it) for it in (first, second))
    if first.value is second.value:
        doubled = replace(first, functions=())
        return replace(call.function(doubled, "Mul", np.array(2.0)), domain=Domain())
    value = writer.pointwise(node, first.value, Epilogue(shortcut=second.value))
    return Feature(first.shape, value, domain, functions=functions)


def _batch_norm(call: Call) -> Feature:
    numbers = [call.constant(k) for k in range(1, 5)]
    factor, offset = reference.norm_factors(call.node, *numbers)
    sides = reference.norm_sides(call.node, len(call.x.shape) + 1)
    channels = call.x.shape[-1 if len(sides) == 1 else 0]
    if factor.shape != (channels,):
        raise call.refuse(f"it has {factor.size} channels, its input {channels}")
    scaled = call.function(call.x, "Mul", factor.reshape(sides))
    return call.function(scaled, "Add", offset.reshape(sides))


def _prelu(call: Call) -> Feature:
    return call.function(_spread(call, call.x, call.constant(1)), "PRelu", call.constant(1))


def _fprelu(call: Call) -> Feature:
    return call.function(call.x, "FPReLU", call.constant(1), call.constant(2))


def _clip(call: Call) -> Feature:
    low, high = call.maybe(1), call.maybe(2)
    least = np.asarray(call.node.get("min", -np.inf) if low is None else low, np.float32)
    most = np.asarray(call.node.get("max", np.inf) if high is None else high, np.float32)
    return call.function(call.x, "Clip", least, most)


def _limit(op: str) -> Callable[[Call], Feature]:
    """Max or Min with a constant."""

    def rule(call: Call) -> Feature:
        x, constant = _and_constant(call)
        least, most = (constant, np.array(np.inf)) if op == "Max" else (np.array(-np.inf), constant)
        return call.function(_spread(call, x, constant), "Clip", least, most)

    return rule


def _compared(op: str) -> Callable[[Call], Feature]:
    """With a constant: 0 or 1."""

    def rule(call: Call) -> Feature:
        x, constant = _and_constant(call)
        is_second = x is call[1]
        return call.function(_spread(call, x, constant), op, constant, is_second=is_second, whole=(0, 1))

    return rule


def _and_constant(call: Call) -> tuple[Feature, Array]:
    k = 0 if isinstance(call[0], Feature) else 1
    if len(call.inputs) != 2:
        raise call.refuse(f"it has {len(call.inputs)} inputs; one tensor and one constant can be held")
    return call.feature(k), call.constant(1 - k)


def _where(call: Call) -> Feature:
    """One of two constants, chosen by what a comparison gave."""
    if not call.x.functions or call.x.functions[-1].whole != (0, 1):
        raise call.refuse("its condition is no comparison with a constant")
    first, second = call.constant(1), call.constant(2)
    held = _spread(call, _spread(call, call.x, first), second)
    return call.function(held, "Where", first, second)


def _abs(call: Call) -> Feature:
    return call.function(call.x, "PRelu", np.array(-1.0))


def _pow(call: Call) -> Feature:
    if (call.constant(1) != 1).any():
        raise call.refuse("it raises a tensor that depends on the image to a power")
    return call.x


# Quantisers: whole numbers, then what scales them back.
def _bipolar(call: Call) -> Feature:
    return _signs(call, call.x, call.constant(1))


def _signs(call: Call, x: Feature, scale: Array) -> Feature:
    signs = call.function(x, "IsNotNegative", whole=(0, 1))
    two, one = np.array(2.0), np.array(1.0)
    return call.function(call.function(call.function(signs, "Mul", two), "Sub", one), "Mul", scale)


def _quant(call: Call) -> Feature:
    node, x, (scale, zero, bits) = call.node, call.x, (call.constant(k) for k in (1, 2, 3))
    if not (scale > 0).all():
        raise call.refuse("its scale is not positive")
    if reference.is_bipolar(node, bits):
        shifted = call.function(call.function(x, "Div", scale), "Add", zero)
        signs = _signs(call, shifted, np.array(1.0))
        return call.function(call.function(signs, "Sub", zero), "Mul", scale)
    width = reference.whole_number(node, "bit width", bits, 1, 32)
    levels = reference.integer_range(node, width, bool(node.get("narrow", 0)), bool(node.get("signed", 1)))
    reference.rounding(node, "ROUND")
    whole = call.function(x, "QuantIntegers", scale, zero, np.array(float(width)), whole=levels)
    return call.function(call.function(whole, "Sub", zero), "Mul", scale)


def _trunc(call: Call) -> Feature:
    numbers = [call.constant(k) for k in range(1, len(call.inputs))]
    if len(numbers) not in (4, 5) or any(it.size != 1 for it in numbers):
        raise call.refuse("it has other inputs than Trunc has in its versions 1 and 2")
    scale, zero = numbers[:2]
    reference.trunc_integers(call.node, np.zeros(1, np.float32), *numbers)
    whole = call.function(call.x, "TruncIntegers", *numbers, whole=(-(2.0**62), 2.0**62))
    if len(numbers) == 4:
        return call.function(call.function(whole, "Sub", zero), "Mul", scale)
    back = np.float32(zero) / reference.trunc_scale(scale, numbers[3])
    return call.function(call.function(whole, "Sub", back), "Mul", numbers[3])


def _multi_threshold(call: Call) -> Feature:
    node, x, thresholds = call.node, call.x, call.constant(1)
    place = reference.threshold_axis(node, len(x.shape) + 1) - 1
    if thresholds.ndim != 2 or len(thresholds) not in (1, x.shape[place]) or not thresholds.shape[1]:
        raise call.refuse(f"its thresholds have the shape {list(thresholds.shape)}")
    along = np.arange(x.shape[place]) if len(thresholds) > 1 else np.zeros(x.shape[place], np.int64)
    spread = np.broadcast_to(along.reshape([-1 if k == place else 1 for k in range(len(x.shape))]), x.shape)
    held, rows = call.writer.by_channel(node, x, spread)
    counted = held.then(Function(node, "Count", (thresholds[rows],), whole=(0, thresholds.shape[1])))
    scaled = call.function(counted, "Mul", np.array(node.get("out_scale", 1.0)))
    return call.function(scaled, "Add", np.array(node.get("out_bias", 0.0)))


def _quantize_linear(call: Call) -> Feature:
    node, rank, zero = call.node, len(call.x.shape) + 1, call.maybe(2)
    levels = reference.linear_range(node, zero)
    plain = Node(node.op, node.name, node.inputs, node.outputs, {}, node.opset)
    scale = reference.per_axis(node, rank, call.constant(1))
    offset = reference.per_axis(node, rank, zero)
    # The range is that of the zero point's type: the limits stand behind the rounding, as functions of their own.
    divided = call.function(call.x, "Div", scale)
    rounded = replace(call, node=plain).function(divided, "Round", whole=(-(2.0**62), 2.0**62))
    moved = rounded.then(*_add_whole(call, rounded, offset))
    return call.function(moved, "Clip", np.array(float(levels[0])), np.array(float(levels[1])))


def _add_whole(call: Call, feature: Feature, offset: Array) -> tuple[Function, ...]:
    """A sum of whole numbers, which is one."""
    if not offset.any():
        return ()
    numbers = call.writer.per_channel(call.node, feature, offset)[1].astype(np.float32)
    return (Function(call.node, "Add", (numbers,), whole=(-(2.0**62), 2.0**62)),)


def _dequantize_linear(call: Call) -> Feature:
    rank = len(call.x.shape) + 1
    zero, scale = (reference.per_axis(call.node, rank, it) for it in (call.maybe(2), call.constant(1)))
    moved = call.function(call.x, "Sub", zero) if zero.any() else call.x
    return call.function(moved, "Mul", scale)


# Products.
def _conv(call: Call) -> Feature:
    node, weight = call.node, call.constant(1)
    x = call.writer.settled(node, call.x)
    reference.check_conv(node, x.shape, weight)
    sides = list(x.shape[1:])
    stride, dilation, before, after, out = reference.windows_of(node, sides, weight.shape[2:])
    if x.pads != NO_PADS and any(before + after) and x.fill is not None and x.fill.any():
        raise call.refuse("it pads with 0 what was padded with another number")
    columns = Columns(list(weight.shape[2:]), stride, dilation)
    made = _convolved(call, x, weight, columns, before=before, out=out, groups=int(node.get("group", 1)))
    bias = call.maybe(2)
    return made if bias is None else call.function(made, "Add", bias.reshape(-1, *[1] * len(sides)))


def _convolved(
    call: Call, x: Feature, weight: Array, columns: Columns, *, before: list[int], out: list[int], groups: int = 1
) -> Feature:
    """Of a settled feature, whose own padding lies around it."""
    kernel = columns.kernel
    if any(step > 1 for step in columns.dilation):
        weight, kernel = _stuffed(call, weight, columns.dilation)
    inner = [x.pads[0], x.pads[1]][-len(out) :]
    padding = [own + earlier for own, earlier in zip(before, inner, strict=True)]
    window = _window_of(kernel, columns.stride, padding)
    weight = weight.reshape(*weight.shape[:2], *window.kernel)
    dims = dims_of(call.node, (len(weight), *out))
    value_sides = (x.value.height, x.value.width)
    reaches = any(
        pad > 0 or (count - 1) * step + size - pad > side
        for pad, count, step, size, side in zip(
            window.padding, dims[1:], window.stride, window.kernel, value_sides, strict=True
        )
    )
    return multiply(call.writer, x, Product(call.node, weight, groups, window, dims, reaches))


def _im2col(call: Call) -> Feature:
    """Windows of images whose channels stand last: written as such nowhere, a matrix of them is a convolution."""
    node, writer = call.node, call.writer
    x = writer.settled(node, writer.moved(node, call.x, np.moveaxis(call.x.numbers(), -1, 0)))
    kernel, stride, dilation, pads, out = reference.im2col_windows(node, x.shape[1:])
    shape = (*out, kernel[0] * kernel[1] * x.shape[0])
    top, left, bottom, right = pads
    fill = np.full(x.value.channels, node.get("pad_value", 0), np.float32) if any(pads) else None
    return replace(
        x, shape=shape, pads=(top, left, bottom, right), fill=fill, columns=Columns(kernel, stride, dilation)
    )


def _window_of(kernel: list[int], stride: list[int], padding: list[int]) -> Window:
    """Of two sides, or of one: then the height is 1."""
    high, wide = [1, *kernel][-2:]
    down, across = [1, *stride][-2:]
    top, left = [0, *padding][-2:]
    return Window((high, wide), (down, across), (top, left))


def _stuffed(call: Call, weight: Array, dilation: list[int]) -> tuple[Array, list[int]]:
    """A dilated kernel as a larger one with zeros in it."""
    kernel = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], dilation, strict=True)]
    if max(kernel) > LARGEST_WINDOW:
        raise call.refuse(f"its dilated kernel {kernel} is larger than {LARGEST_WINDOW}")
    larger = np.zeros((*weight.shape[:2], *kernel), weight.dtype)
    places = (slice(None), slice(None), *(slice(None, None, step) for step in dilation))
    larger[places] = weight
    return larger, kernel


def _matmul(call: Call) -> Feature:
    if isinstance(call[0], Feature):
        return _matrix(call, call.x, call.constant(1))
    x, matrix = call.feature(1), call.constant(0)
    if len(x.shape) == 1 or matrix.ndim != 2:
        raise call.refuse("it mixes the images of a batch, or has a matrix for each of them")
    made = _matrix(call, _swapped(call, x), matrix.T)  # what is multiplied from the left, turned
    return _swapped(call, made)


def _swapped(call: Call, x: Feature) -> Feature:
    return call.writer.moved(call.node, x, np.swapaxes(x.numbers(), -1, -2))


def _gemm(call: Call) -> Feature:
    if not isinstance(call[0], Feature) or call.node.get("transA", 0) or len(call.x.shape) != 1:
        raise call.refuse("it mixes the images of a batch: they are the rows of its first matrix")
    made = _matrix(call, call.x, reference.gemm_matrix(call.node, call.constant(1)))
    bias = call.maybe(2)
    if bias is None:
        return made
    return call.function(made, "Add", np.asarray(bias * np.float32(call.node.get("beta", 1.0)), np.float32))


def _matrix(call: Call, x: Feature, matrix: Array) -> Feature:
    """Times the last axis: a 1x1 convolution of what has that axis first, and a larger one of windows."""
    node, writer = call.node, call.writer
    if matrix.ndim != 2 or not matrix.size or len(matrix) != x.shape[-1]:
        raise call.refuse(f"a matrix of {list(matrix.shape)} does not fit vectors of {list(x.shape)}")
    sides = x.shape[:-1]
    if x.columns is not None:
        weight = matrix.T.reshape(-1, *x.columns.kernel, x.value.channels).transpose(0, 3, 1, 2)
        made = _convolved(call, x, weight, x.columns, before=[0, 0], out=list(sides))
    else:
        if sides:
            numbers = np.moveaxis(x.numbers(), -1, 0)
            pixels = x.value.height, x.value.width  # a matrix does not ask how they lie
            alike = math.prod(sides) == math.prod(pixels)
            x = writer.moved(node, x, numbers.reshape(-1, *pixels) if alike else numbers)
        x = writer.settled(node, x)
        dims = dims_of(node, (matrix.shape[1], *x.shape[1:]))
        weight = np.ascontiguousarray(matrix.T)[:, :, None, None]
        made = multiply(writer, x, Product(node, weight, 1, Window((1, 1), (1, 1), (0, 0)), dims, False))
    if not sides:
        return made
    return writer.moved(node, made, np.moveaxis(made.numbers().reshape(-1, *sides), 0, -1))


# Pools.
def _max_pool(call: Call) -> Feature:
    node = call.node
    if len(node.outputs) > 1 and node.outputs[1]:
        raise call.refuse("it gives indices")
    if node.get("storage_order", 0):
        raise call.refuse("it stores columns first")
    x = call.writer.settled(node, call.x)
    return _pool_max(call, x, reference.sizes_of(node, "kernel_shape", len(x.shape) - 1))


def _global_max(call: Call) -> Feature:
    x = call.writer.settled(call.node, call.x)
    return _pool_max(call, x, list(x.shape[1:]))


def _pool_max(call: Call, x: Feature, kernel: list[int]) -> Feature:
    """The largest code is the code of the largest: functions that rise may come behind."""
    node, writer = call.node, call.writer
    if x.pads != NO_PADS:
        raise call.refuse("it reads what was padded; only a convolution can")
    window, shape, _ = _window(call, x, kernel)
    x = writer.stepwise(node, x)
    if not writer.is_stepped(x) and not x.domain.is_whole:
        x = writer.grounded(node, x)  # so that it is the end of the operator before, which can pool too
    direction = slope(x.functions, x.value.channels)
    if direction is None:
        x = writer.grounded(node, x)
    elif (direction < 0).any():
        x = writer.rising(node, x)
        direction = slope(x.functions, x.value.channels)
        if direction is None or (direction < 0).any():
            x = writer.grounded(node, x)
    value = writer.emit(MaxPool(path_of(node), (x.value,), Value(*dims_of(node, shape)), window=window))
    return replace(x, shape=shape, value=value)


def _window(call: Call, x: Feature, kernel: list[int]) -> tuple[Window, tuple[int, ...], bool]:
    """Of a pool; and whether windows reach beyond the image."""
    node, sides = call.node, list(x.shape[1:])
    if not sides:
        raise call.refuse("it pools a vector")
    stride, dilation, before, _, out = reference.windows_of(node, sides, kernel)
    if any(step > 1 for step in dilation):
        raise call.refuse(f"it has the dilation {dilation}")
    if max(*kernel, *stride) > LARGEST_WINDOW or any(a >= b for a, b in zip(before, kernel, strict=True)):
        raise call.refuse(f"its window {kernel} is larger than {LARGEST_WINDOW}, or not larger than its padding")
    window = _window_of(kernel, stride, before)
    reaches = any(
        pad > 0 or (count - 1) * step + size > side
        for pad, count, step, size, side in zip(before, out, stride, kernel, sides, strict=True)
    )
    return window, (x.shape[0], *out), reaches


def _average_pool(call: Call) -> Feature:
    node, writer = call.node, call.writer
    x = writer.plain(node, call.x, keep_units=True)
    kernel = reference.sizes_of(node, "kernel_shape", len(x.shape) - 1)
    window, shape, reaches = _window(call, x, kernel)
    counts = bool(node.get("count_include_pad", 0))
    if not reaches and shape[1:] == (1,) * (len(shape) - 1) and kernel == list(x.shape[1:]):
        return _averaged(call, x, shape)
    if reaches and counts:
        if node.get("ceil_mode", 0):
            raise call.refuse("it counts padding and has ceil_mode")
        x = writer.plain(node, x)  # zeros count: an offset would too
    pool = AvgPool(path_of(node), (x.value,), Value(*dims_of(node, shape)), window=window, whole=counts or not reaches)
    return replace(x, shape=shape, value=writer.emit(pool), domain=replace(x.domain, is_whole=False))


def _averaged(call: Call, x: Feature, shape: tuple[int, ...]) -> Feature:
    """Over all pixels. An average of numbers that are scaled alike may be scaled behind it."""
    output = Value(x.value.channels, 1, 1)
    value = call.writer.emit(AverageTo(path_of(call.node), (x.value,), output))
    return replace(x, shape=shape, value=value, domain=replace(x.domain, is_whole=False))


def _global_average(call: Call) -> Feature:
    x = call.writer.plain(call.node, call.x, keep_units=True)
    return _averaged(call, x, (x.shape[0], *[1] * (len(x.shape) - 1)))


def _reduce_mean(call: Call) -> Feature:
    rank = len(call.x.shape) + 1
    axes = reference.reduced_axes(call.node, rank, call.maybe(1))
    x = call.x
    last = x.elements is not None and axes == list(range(1, rank - 1))
    if last:  # channels stand last
        x = call.writer.moved(call.node, x, np.moveaxis(x.numbers(), -1, 0))
    elif axes != list(range(2, rank)):
        raise call.refuse(f"it takes a mean over the axes {axes}; only one over the pixels can be held")
    x = call.writer.plain(call.node, x, keep_units=True)
    ones = [1] * (len(x.shape) - 1) if call.node.get("keepdims", 1) else []
    channels = x.shape[0]
    return _averaged(call, x, (*ones, channels) if last else (channels, *ones))


# Moves: run on the numbers of the elements in place of the elements.
def _moved(call: Call) -> Any:
    x = call.x
    numbers = x.numbers()[None]
    rest = [call.maybe(k) for k in range(1, len(call.inputs))]
    made = reference.evaluate(call.node, [numbers, *rest])
    features = []
    for part in made:
        if not len(part.shape) or part.shape[0] != 1:
            raise call.refuse("it mixes the images of a batch")
        moved = call.writer.moved(call.node, x, part[0])
        features.append(moved if part.size == x.value.size else call.writer.settled(call.node, moved))
    return features if call.node.op == "Split" else features[0]


def _reshape(call: Call) -> Feature:
    x, target = call.x, call.constant(1).ravel().tolist()
    if target and target[0] == call.writer.batch:
        target[0] = 1
    shape = reference.reshape_to(call.node, (1, *x.shape), target)
    return _reshaped(call, x, shape)


def _flatten(call: Call) -> Feature:
    return _reshaped(call, call.x, reference.flatten_to(call.node, (1, *call.x.shape)))


def _reshaped(call: Call, x: Feature, shape: list[int]) -> Feature:
    if not shape or shape[0] != 1:
        raise call.refuse("it mixes the images of a batch")
    return call.writer.moved(call.node, x, x.numbers().reshape(shape[1:]))


def _concat(call: Call) -> Feature:
    node, writer = call.node, call.writer
    features = [call.feature(k) for k in range(len(call.inputs))]
    axis = int(node.get("axis", 0)) % (len(features[0].shape) + 1) - 1
    if axis < 0:
        raise call.refuse("it joins the images of batches")
    if axis > 0:
        features = [writer.moved(node, it, np.moveaxis(it.numbers(), axis, 0)) for it in features]
    if any(it.shape[1:] != features[0].shape[1:] for it in features):
        raise call.refuse("its parts do not fit together")
    features = [writer.plain(node, it, keep_units=True) for it in features]
    units = [writer.units(it) for it in features]
    alike = units[0] is not None and all(unit == units[0] for unit in units)
    if not alike:
        features = [writer.plain(node, it) for it in features]
    first = features[0]
    channels = sum(it.value.channels for it in features)
    output = Value(channels, first.value.height, first.value.width)
    value = writer.emit(Concat(path_of(node), tuple(it.value for it in features), output))
    functions: tuple[Function, ...] = ()
    domain = Domain()
    if alike:
        functions = tuple(function.take(np.zeros(channels, np.int64)) for function in first.functions)
        domain = Domain(min(it.domain.low for it in features), max(it.domain.high for it in features), True)
    made = Feature((channels, *first.shape[1:]), value, domain, functions=functions)
    return writer.moved(node, made, np.moveaxis(made.numbers(), 0, axis)) if axis else made


def _pad(call: Call) -> Feature:
    node, rank = call.node, len(call.x.shape) + 1
    amounts, fill = reference.pads_given(node, rank, call.maybe(1), call.maybe(2), call.maybe(3))
    if not amounts.any():
        return call.x
    x = call.writer.settled(node, call.x)
    if rank != 4 or (amounts < 0).any() or amounts[:2].any() or x.pads != NO_PADS or amounts.max() > LARGEST_WINDOW:
        raise call.refuse("it pads something else than the four sides of images, or twice")
    (top, bottom), (left, right) = amounts[2:].tolist()
    shape = (x.shape[0], x.shape[1] + top + bottom, x.shape[2] + left + right)
    return replace(x, shape=shape, pads=(top, left, bottom, right), fill=np.full(x.value.channels, fill, np.float32))


RULES: dict[str, Callable[[Call], Any]] = {
    "Abs": _abs,
    "Add": _with_constant("Add"),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "BipolarQuant": _bipolar,
    "Cast": _same,
    "Celu": _plain("Celu"),
    "Ceil": _whole("Ceil"),
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "DequantizeLinear": _dequantize_linear,
    "Div": _with_constant("Div"),
    "Dropout": _same,
    "Elu": _plain("Elu"),
    "FPReLU": _fprelu,
    "Flatten": _flatten,
    "Floor": _whole("Floor"),
    "Gather": _moved,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global_max,
    "Greater": _compared("Greater"),
    "GreaterOrEqual": _compared("GreaterOrEqual"),
    "HardSigmoid": _plain("HardSigmoid"),
    "HardSwish": _plain("HardSwish"),
    "Identity": _same,
    "Im2Col": _im2col,
    "IntQuant": _quant,
    "LeakyRelu": _plain("LeakyRelu"),
    "Less": _compared("Less"),
    "LessOrEqual": _compared("LessOrEqual"),
    "MatMul": _matmul,
    "Max": _limit("Max"),
    "MaxPool": _max_pool,
    "Min": _limit("Min"),
    "Mul": _with_constant("Mul"),
    "MultiThreshold": _multi_threshold,
    "Neg": _plain("Neg"),
    "Not": _whole("Not", 0, 1),
    "PRelu": _prelu,
    "Pad": _pad,
    "Pow": _pow,
    "Quant": _quant,
    "QuantizeLinear": _quantize_linear,
    "ReduceMean": _reduce_mean,
    "Relu": _plain("Relu"),
    "Reshape": _reshape,
    "Round": _whole("Round"),
    "Selu": _plain("Selu"),
    "Sigmoid": _plain("Sigmoid"),
    "Sign": _whole("Sign", -1, 1),
    "Silu": _plain("Silu"),
    "Slice": _moved,
    "Softplus": _plain("Softplus"),
    "Softsign": _plain("Softsign"),
    "Split": _moved,
    "Squeeze": _moved,
    "Sub": _with_constant("Sub"),
    "Tanh": _plain("Tanh"),
    "Transpose": _moved,
    "Trunc": _trunc,
    "Unsqueeze": _moved,
    "Where": _where,
}

# Functions of single numbers: what they read and write has one shape and order.
ELEMENTWISE = frozenset(
    "Abs Add BatchNormalization BipolarQuant Cast Ceil Celu Clip DequantizeLinear Div Dropout Elu FPReLU Floor "
    "Greater GreaterOrEqual HardSigmoid HardSwish Identity IntQuant LeakyRelu Less LessOrEqual Max Min Mul "
    "MultiThreshold Neg Not PRelu Pow Quant QuantizeLinear Relu Round Selu Sigmoid Sign Silu Softplus Softsign "
    "Sub Tanh Trunc Where".split()
)
