"""What each operator of ONNX and QONNX computes, in plain NumPy: the specification that an imported file is held to.

Elementwise arithmetic is float32, operator by operator, as the executors of ONNX do it. Sums are taken in float64 and
rounded once, so that they do not depend on an order.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftbnn.exchange.qonnx_model import OnnxModel
from ftbnn.exchange.qonnx_node import MOST_ELEMENTS, Array, ImportRefused, Node

MOST_COLUMNS = 2**27  # of the matrix that a convolution is


def _f32(x: Any) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(x, np.float32)


def _limited(node: Node, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that a node asks for, before it is allocated."""
    dims = tuple(int(dim) for dim in shape)
    if any(dim < 0 for dim in dims) or math.prod(dims) > MOST_ELEMENTS:
        raise ImportRefused(node, f"it makes a tensor of the shape {list(dims)[:8]}")
    return dims


# Rounding, by QONNX's names.
def _half(x: Array, up: bool) -> Array:
    """The nearest whole number, of two the one further from 0 (up), or nearer to it."""
    size = np.abs(x)
    whole = np.floor(size + np.float32(0.5)) if up else np.ceil(size - np.float32(0.5))
    # size + 0.5 may itself round up: 0.49999997 + 0.5 is 1.
    whole = np.where(np.abs(whole - size) > 0.5, np.round(size), whole)
    return _f32(np.copysign(whole, x))


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.copysign(np.ceil(np.abs(x)), x),
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
    "HALF_UP": lambda x: _half(x, True),
    "HALF_DOWN": lambda x: _half(x, False),
}


def rounding(node: Node, default: str) -> Callable[[Array], Array]:
    mode = str(node.get("rounding_mode", default)).upper()
    if mode not in ROUNDINGS:
        raise ImportRefused(node, f"its rounding mode {mode[:40]!r} is unknown")
    return ROUNDINGS[mode]


def whole_number(node: Node, what: str, given: Array, least: int, most: int) -> int:
    """A constant that is one whole number, as a bit width is."""
    if given.size == 0 or (given != given.ravel()[0]).any():
        raise ImportRefused(node, f"its {what} differs within the tensor")
    number = float(given.ravel()[0])
    if number != int(number) or not least <= number <= most:
        raise ImportRefused(node, f"its {what} is {number}; it must be a whole number from {least} to {most}")
    return int(number)


def integer_range(node: Node, bits: int, narrow: bool, signed: bool) -> tuple[int, int]:
    if bits == 1 and signed:
        raise ImportRefused(node, "it has one bit with a sign")
    if signed:
        return -(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - narrow


def quant_integers(node: Node, x: Array, scale: Array, zero: Array, bits: Array) -> Array:
    """The whole numbers of a Quant, before they are scaled back."""
    width = whole_number(node, "bit width", bits, 1, 32)
    low, high = integer_range(node, width, bool(node.get("narrow", 0)), bool(node.get("signed", 1)))
    with np.errstate(all="ignore"):
        y = _f32(_f32(x / scale) + zero)
        return _f32(rounding(node, "ROUND")(np.clip(y, np.float32(low), np.float32(high))))


def is_bipolar(node: Node, bits: Array) -> bool:
    return bool(node.get("signed", 1)) and bits.size > 0 and bool((bits == 1).all())


def quant(node: Node, x: Array, scale: Array, zero: Array, bits: Array) -> Array:
    if is_bipolar(node, bits):
        with np.errstate(all="ignore"):
            whole = np.where(_f32(_f32(x / scale) + zero) >= 0, np.float32(1), np.float32(-1))
    else:
        whole = quant_integers(node, x, scale, zero, bits)
    return _f32(_f32(whole - zero) * scale)


def bipolar_quant(_: Node, x: Array, scale: Array) -> Array:
    return _f32(np.where(x >= 0, np.float32(1), np.float32(-1)) * scale)


def trunc_integers(node: Node, x: Array, scale: Array, zero: Array, *more: Array) -> Array:
    """Version 1 has the bit width after, version 2 the scale and the bit width after."""
    with np.errstate(all="ignore"):
        y = np.round(_f32(_f32(x / scale) + zero))
        if len(more) == 2:
            y = _f32(y / np.float32(2.0) ** _f32(more[0] - more[1]))
            return _f32(rounding(node, "FLOOR")(y))
        _, out_scale, out_bits = more
        low, high = integer_range(
            node,
            whole_number(node, "bit width", out_bits, 1, 32),
            bool(node.get("narrow", 0)),
            bool(node.get("signed", 1)),
        )
        y = np.clip(_f32(y / trunc_scale(scale, out_scale)), np.float32(low), np.float32(high))
        return _f32(rounding(node, "FLOOR")(y))


def trunc_scale(scale: Array, out_scale: Array) -> Array:
    return _f32(2.0 ** np.round(np.log2(out_scale / scale)))


def trunc(node: Node, x: Array, scale: Array, zero: Array, *more: Array) -> Array:
    if len(more) not in (2, 3):
        raise ImportRefused(node, f"it has {3 + len(more)} inputs")
    y = trunc_integers(node, x, scale, zero, *more)
    if len(more) == 2:
        return _f32(_f32(y - zero) * scale)
    return _f32(_f32(y - _f32(zero / trunc_scale(scale, more[1]))) * more[1])


# As QONNX guesses where a file does not say.
_LAYOUTS = {3: "NWC", 4: "NCHW"}


def threshold_axis(node: Node, rank: int) -> int:
    """The axis of channels of a MultiThreshold."""
    layout = node.get("data_layout", "") or _LAYOUTS.get(rank, "NC")
    axis = layout.find("C") if "C" in layout else 1
    if axis >= rank:
        raise ImportRefused(node, f"its layout {layout[:20]} does not fit {rank} axes")
    return axis


def multi_threshold(node: Node, x: Array, thresholds: Array) -> Array:
    axis = threshold_axis(node, x.ndim)
    last = np.moveaxis(x, axis, -1)
    if thresholds.ndim != 2 or len(thresholds) not in (1, last.shape[-1]):
        raise ImportRefused(node, f"its thresholds have the shape {list(thresholds.shape)}")
    count = np.zeros(last.shape, np.float32)
    for k in range(thresholds.shape[1]):
        count += last >= thresholds[:, k]
    scale, bias = np.float32(node.get("out_scale", 1.0)), np.float32(node.get("out_bias", 0.0))
    return _f32(_f32(scale * np.moveaxis(count, -1, axis)) + bias)


def quantize_linear_integers(node: Node, x: Array, scale: Array, zero: Array | None = None) -> Array:
    low, high = linear_range(node, zero)
    offset = np.float32(0) if zero is None else _f32(zero)
    with np.errstate(all="ignore"):
        return _f32(np.clip(np.round(_f32(x / scale)) + offset, np.float32(low), np.float32(high)))


def linear_range(node: Node, zero: Array | None) -> tuple[int, int]:
    if zero is not None and zero.dtype.kind not in "iu":
        raise ImportRefused(node, f"it quantizes to {zero.dtype}")
    facts = np.iinfo(np.uint8 if zero is None else zero.dtype)
    return int(facts.min), int(facts.max)


def per_axis(node: Node, rank: int, given: Array | None) -> Array:
    """Scales and zero points of QuantizeLinear: one, or a vector along an axis."""
    if given is None:
        return np.zeros((), np.float32)
    if given.ndim == 0 or given.size == 1:
        return _f32(given.reshape(()))
    if given.ndim != 1 or node.get("block_size", 0):
        raise ImportRefused(node, f"its scales have the shape {list(given.shape)}")
    axis = node.get("axis", 1) % rank
    return _f32(given.reshape([-1 if k == axis else 1 for k in range(rank)]))


def quantize_linear(node: Node, x: Array, scale: Array, zero: Array | None = None) -> Array:
    rank = x.ndim
    like = None if zero is None else per_axis(node, rank, zero).astype(zero.dtype)
    whole = quantize_linear_integers(node, x, per_axis(node, rank, scale), like)
    return whole.astype(np.uint8 if zero is None else zero.dtype)


def dequantize_linear(node: Node, x: Array, scale: Array, zero: Array | None = None) -> Array:
    return _f32(_f32(_f32(x) - per_axis(node, x.ndim, zero)) * per_axis(node, x.ndim, scale))


def norm_factors(node: Node, scale: Array, bias: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """BatchNormalization as x * factor + offset, in the float32 steps of its executors."""
    if node.get("training_mode", 0) or not scale.shape == bias.shape == mean.shape == variance.shape:
        raise ImportRefused(node, "it normalises by the statistics of the batch, or its numbers do not fit together")
    factor = _f32(scale / np.sqrt(_f32(variance + np.float32(node.get("epsilon", 1e-5)))))
    return factor, _f32(bias - _f32(mean * factor))


def norm_sides(node: Node, rank: int) -> tuple[int, ...]:
    """The shape in which one number for each channel broadcasts."""
    return (-1,) if node.get("channels_last", 0) else (-1, *[1] * (rank - 2))


def batch_norm(node: Node, x: Array, *numbers: Array) -> Array:
    factor, offset = (it.reshape(norm_sides(node, x.ndim)) for it in norm_factors(node, *numbers))
    return _f32(_f32(x * factor) + offset)


def pads_of(
    node: Node, sides: Sequence[int], kernel: Sequence[int], stride: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Padding before and after each side, of `auto_pad` too."""
    rank = len(sides)
    mode = node.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for side, size, step in zip(sides, kernel, stride, strict=True):
            total = max((-(-side // step) - 1) * step + size - side, 0)
            less, more = total // 2, total - total // 2
            before.append(less if mode == "SAME_UPPER" else more)
            after.append(more if mode == "SAME_UPPER" else less)
        return before, after
    pads = list(node.get("pads", [])) or [0] * 2 * rank
    if mode not in ("NOTSET", "VALID", "") or len(pads) != 2 * rank or min(pads) < 0 or (mode == "VALID" and any(pads)):
        raise ImportRefused(node, f"its padding {pads[:8]} ({mode[:20]}) does not fit")
    return pads[:rank], pads[rank:]


def sizes_of(node: Node, name: str, rank: int, default: list[int] | None = None) -> list[int]:
    """An attribute of positive whole numbers, one for each side."""
    given = list(node.get(name, [])) or list(default or [1] * rank)
    if len(given) != rank or min(given) < 1 or max(given) > 2**14:
        raise ImportRefused(node, f"its {name} {given[:8]} do not fit")
    return given


def windows_of(
    node: Node, sides: Sequence[int], kernel: Sequence[int]
) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """(stride, dilation, padding before, padding after, size of the output) of a convolution or pool."""
    rank = len(sides)
    stride = sizes_of(node, "strides", rank)
    dilation = sizes_of(node, "dilations", rank)
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    before, after = pads_of(node, sides, reach, stride)
    up = bool(node.get("ceil_mode", 0))
    out = []
    for side, first, last, size, step in zip(sides, before, after, reach, stride, strict=True):
        free = side + first + last - size
        count = (-(-free // step) if up else free // step) + 1
        if up and (count - 1) * step >= side + first:
            count -= 1  # a window that begins in the padding behind the image
        out.append(count)
    if min(out) < 1:
        raise ImportRefused(node, f"its window {list(kernel)} is larger than the image of {list(sides)}")
    return stride, dilation, before, after, out


def _columns(x: Array, node: Node, kernel: Sequence[int], fill: float) -> tuple[Array, list[int]]:
    """Every window's elements, (N, C, taps, positions), and the output's size."""
    sides = x.shape[2:]
    stride, dilation, before, _, out = windows_of(node, sides, kernel)
    if x.shape[0] * x.shape[1] * math.prod(kernel) * math.prod(out) > MOST_COLUMNS * 8:
        raise ImportRefused(node, "it is too large to be checked")
    beyond = [
        max(0, (count - 1) * step + (size - 1) * gap + 1 - side - first)
        for count, step, size, gap, side, first in zip(out, stride, kernel, dilation, sides, before, strict=True)
    ]
    padding = [(0, 0), (0, 0), *zip(before, beyond, strict=True)]
    padded = np.pad(x, padding, constant_values=fill)
    taps = []
    for tap in np.ndindex(*kernel):
        at = [k * gap for k, gap in zip(tap, dilation, strict=True)]
        spans = tuple(
            slice(first, first + (count - 1) * step + 1, step)
            for first, count, step in zip(at, out, stride, strict=True)
        )
        every = (slice(None), slice(None), *spans)
        taps.append(padded[every].reshape(*x.shape[:2], -1))
    return np.stack(taps, 2), out


def conv(node: Node, x: Array, weight: Array, bias: Array | None = None) -> Array:
    check_conv(node, x.shape[1:], weight)
    groups, outputs = int(node.get("group", 1)), len(weight)
    columns, out = _columns(x.astype(np.float64), node, weight.shape[2:], 0.0)
    parts = []
    for g in range(groups):
        inside = columns[:, g * weight.shape[1] : (g + 1) * weight.shape[1]]
        matrix = weight[g * outputs // groups : (g + 1) * outputs // groups].reshape(outputs // groups, -1)
        parts.append(matrix.astype(np.float64) @ inside.reshape(len(x), matrix.shape[1], -1))
    y = _f32(np.concatenate(parts, 1).reshape(len(x), outputs, *out))
    return y if bias is None else _f32(y + bias.reshape(-1, *[1] * len(out)))


def im2col_windows(node: Node, sides: Sequence[int]) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """(kernel, stride, dilation, pads, size of the output) of an Im2Col."""
    kernel = sizes_of(node, "kernel_size", len(sides))
    windows = replace(node, attributes=_im2col_attributes(node))
    stride, dilation, before, after, out = windows_of(windows, sides, kernel)
    return kernel, stride, dilation, before + after, out


def _im2col_attributes(node: Node) -> dict[str, Any]:
    """Under the names that they have in a Conv."""
    names = {"strides": "stride", "dilations": "dilations", "pads": "pad_amount"}
    return {name: node.get(other, []) for name, other in names.items()}


def im2col(node: Node, x: Array) -> Array:
    """(N, H, W, C) to (N, rows, columns, kernel height * kernel width * C)."""
    windows = replace(node, attributes=_im2col_attributes(node))
    kernel = sizes_of(node, "kernel_size", x.ndim - 2)
    columns, out = _columns(np.moveaxis(x, -1, 1), windows, kernel, node.get("pad_value", 0))
    return _f32(columns.transpose(0, 3, 2, 1).reshape(len(x), *out, -1))


def check_conv(node: Node, shape: Sequence[int], weight: Array) -> None:
    """That the weights fit an image of this shape (without the batch)."""
    groups = int(node.get("group", 1))
    kernel = node.get("kernel_shape", list(weight.shape[2:]))
    fits = (
        weight.ndim == len(shape) + 1 >= 3
        and groups >= 1
        and weight.size > 0
        and weight.shape[1] * groups == shape[0]
        and len(weight) % groups == 0
        and list(kernel) == list(weight.shape[2:])
    )
    if not fits:
        raise ImportRefused(node, f"weights of {list(weight.shape)} in {groups} groups do not fit {list(shape)}")


def max_pool(node: Node, x: Array) -> Array:
    kernel = sizes_of(node, "kernel_shape", x.ndim - 2)
    columns, out = _columns(x, node, kernel, -np.inf)
    return _f32(columns.max(2).reshape(*x.shape[:2], *out))


def average_pool(node: Node, x: Array) -> Array:
    kernel = sizes_of(node, "kernel_shape", x.ndim - 2)
    columns, out = _columns(x.astype(np.float64), node, kernel, 0.0)
    counted = np.ones(x.shape[2:])
    if node.get("count_include_pad", 0):
        _, _, before, after, _ = windows_of(node, x.shape[2:], kernel)
        padding = list(zip(before, after, strict=True))
        padded = Node("", "", (), (), {"strides": node.get("strides", []), "ceil_mode": node.get("ceil_mode", 0)})
        counted = np.pad(counted, padding, constant_values=1.0)
        number, _ = _columns(counted[None, None], padded, kernel, 0.0)
    else:
        number, _ = _columns(counted[None, None], node, kernel, 0.0)
    return _f32((columns.sum(2) / number.sum(2)).reshape(*x.shape[:2], *out))


def global_average(_: Node, x: Array) -> Array:
    return _f32(x.mean(axis=tuple(range(2, x.ndim)), keepdims=True, dtype=np.float64))


def reduced_axes(node: Node, rank: int, given: Array | None) -> list[int]:
    axes = node.get("axes", []) if given is None else given.ravel().tolist()
    return sorted({int(axis) % rank for axis in axes} if len(axes) else range(rank))


def reduce_mean(node: Node, x: Array, axes: Array | None = None) -> Array:
    over = tuple(reduced_axes(node, x.ndim, axes))
    return _f32(x.mean(axis=over, keepdims=bool(node.get("keepdims", 1)), dtype=np.float64))


def matmul(node: Node, x: Array, y: Array) -> Array:
    try:
        return _f32(x.astype(np.float64) @ y.astype(np.float64))
    except ValueError:
        raise ImportRefused(node, f"it multiplies {list(x.shape)} with {list(y.shape)}") from None


def gemm(node: Node, x: Array, y: Array, bias: Array | None = None) -> Array:
    first, second = x.T if node.get("transA", 0) else x, gemm_matrix(node, y)
    out = matmul(node, first, second)
    return out if bias is None else _f32(out + _f32(bias * np.float32(node.get("beta", 1.0))))


def gemm_matrix(node: Node, y: Array) -> Array:
    if y.ndim != 2:
        raise ImportRefused(node, f"its matrix has the shape {list(y.shape)}")
    return _f32((y.T if node.get("transB", 0) else y) * np.float32(node.get("alpha", 1.0)))


def clip(node: Node, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    least = node.get("min", -np.inf) if low is None else low
    most = node.get("max", np.inf) if high is None else high
    return np.asarray(np.minimum(np.maximum(x, np.asarray(least, x.dtype)), np.asarray(most, x.dtype)))


def softmax(node: Node, x: Array) -> Array:
    axis = node.get("axis", -1 if node.opset >= 13 else 1)
    e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    return _f32(e / e.sum(axis=axis, keepdims=True))


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x.astype(np.float64)))


# Of tensors that are made of constants alone, shapes above all.
def reshape_to(node: Node, shape: Sequence[int], target: Sequence[int]) -> list[int]:
    """The shape that a Reshape gives a tensor of `shape`."""
    size = math.prod(shape)
    dims = [int(dim) for dim in target]
    if not node.get("allowzero", 0):
        dims = [shape[k] if dim == 0 and k < len(shape) else dim for k, dim in enumerate(dims)]
    known = math.prod(dim for dim in dims if dim != -1)
    if dims.count(-1) == 1 and known > 0 and size % known == 0:
        dims[dims.index(-1)] = size // known
    if any(dim < 0 for dim in dims) or math.prod(dims) != size:
        raise ImportRefused(node, f"it gives {list(shape)} the shape {list(target)[:8]}")
    return dims


def flatten_to(node: Node, shape: Sequence[int]) -> list[int]:
    axis = int(node.get("axis", 1))
    if not -len(shape) <= axis <= len(shape):
        raise ImportRefused(node, f"its axis {axis} does not exist")
    axis += len(shape) if axis < 0 else 0
    return [math.prod(shape[:axis]), math.prod(shape[axis:])]


def transpose(node: Node, x: Array) -> Array:
    perm = list(node.get("perm", [])) or list(range(x.ndim))[::-1]
    if sorted(perm) != list(range(x.ndim)):
        raise ImportRefused(node, f"it orders {x.ndim} axes as {perm[:8]}")
    return np.transpose(x, perm)


def squeeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    given = node.get("axes", []) if axes is None else axes.ravel().tolist()
    over = {int(axis) % x.ndim for axis in given} if len(given) else {k for k, dim in enumerate(x.shape) if dim == 1}
    if any(x.shape[axis] != 1 for axis in over):
        raise ImportRefused(node, f"it squeezes axes {sorted(over)} of {list(x.shape)}")
    return x.reshape([dim for k, dim in enumerate(x.shape) if k not in over])


def unsqueeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    given = [int(axis) for axis in (node.get("axes", []) if axes is None else axes.ravel().tolist())]
    rank = x.ndim + len(given)
    places = {axis % rank for axis in given} if rank <= 8 else set()
    if len(places) != len(given):
        raise ImportRefused(node, f"it puts axes at {given[:8]}")
    dims = iter(x.shape)
    return x.reshape([1 if k in places else next(dims) for k in range(rank)])


def slice_(node: Node, x: Array, *given: Array | None) -> Array:
    if given:
        lists = [None if it is None else [int(number) for number in it.ravel()] for it in (*given, *[None] * 4)[:4]]
    else:
        lists = [node.get("starts", []), node.get("ends", []), node.get("axes", []) or None, None]
    starts, ends, axes, steps = lists
    axes = list(range(len(starts or []))) if axes is None else axes
    steps = [1] * len(axes) if steps is None else steps
    if starts is None or ends is None or not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ImportRefused(node, "its starts, ends, axes and steps do not fit together")
    cut = [slice(None)] * x.ndim
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not -x.ndim <= axis < x.ndim:
            raise ImportRefused(node, f"its axis {axis} does not exist")
        begin, end = (max(min(number, 2**31), -(2**31)) for number in (first, last))
        cut[axis] = slice(begin, None if step < 0 and end <= -(2**31) else end, step)
    return x[tuple(cut)]


def gather(node: Node, x: Array, indices: Array) -> Array:
    axis = int(node.get("axis", 0))
    if not -x.ndim <= axis < x.ndim or indices.dtype.kind not in "iu":
        raise ImportRefused(node, "its axis or its indices do not fit")
    side = x.shape[axis]
    if indices.size and (indices.min() < -side or indices.max() >= side):
        raise ImportRefused(node, "it gathers what is outside of the tensor")
    _limited(node, [*indices.shape, x.size // max(side, 1)])
    return np.take(x, indices, axis)


def split(node: Node, x: Array, sizes: Array | None = None) -> list[Array]:
    axis = int(node.get("axis", 0))
    if not -x.ndim <= axis < x.ndim:
        raise ImportRefused(node, f"its axis {axis} does not exist")
    given = node.get("split", []) if sizes is None else sizes.ravel().tolist()
    count, side = len(node.outputs), x.shape[axis]
    each = -(-side // max(count, 1))
    parts = [int(part) for part in given] or [min(each, side - k * each) for k in range(count)]
    if len(parts) != count or sum(parts) != side or min(parts) < 0:
        raise ImportRefused(node, f"it splits {side} into {parts[:8]}")
    return np.split(x, np.cumsum(parts)[:-1], axis)


def concat(node: Node, *parts: Array) -> Array:
    try:
        return np.concatenate(parts, int(node.get("axis", 0)))
    except ValueError:
        raise ImportRefused(node, "its parts do not fit together") from None


_CASTS: dict[int, type[np.generic]] = {
    1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float32, 11: np.float32,
}  # fmt: skip


def cast(node: Node, x: Array) -> Array:
    kind = int(node.get("to", 0))
    if kind not in _CASTS:
        raise ImportRefused(node, f"it casts to ONNX's type {kind}")
    with np.errstate(all="ignore"):
        return x.astype(_CASTS[kind])


def constant(node: Node) -> Array:
    for name, kind in (("value_float", np.float32), ("value_int", np.int64)):
        if name in node.attributes:
            return np.array(node.attributes[name], kind)
    for name, kind in (("value_floats", np.float32), ("value_ints", np.int64)):
        if name in node.attributes:
            return np.array(node.attributes[name], kind)
    found = node.attributes.get("value")
    if not isinstance(found, np.ndarray):
        raise ImportRefused(node, "it holds no tensor")
    return found


def constant_of_shape(node: Node, shape: Array) -> Array:
    value = node.get("value", np.zeros(1, np.float32))
    return np.full(_limited(node, shape.ravel().tolist()), value.ravel()[0], value.dtype)


def expand(node: Node, x: Array, shape: Array) -> Array:
    dims = _limited(node, shape.ravel().tolist())
    try:
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, dims))
    except ValueError:
        raise ImportRefused(node, f"it spreads {list(x.shape)} to {list(dims)}") from None


def pads_given(
    node: Node, rank: int, pads: Array | None, value: Array | None, axes: Array | None
) -> tuple[Array, float]:
    """(rank, 2) elements before and after, and what they are, of a Pad."""
    mode = node.get("mode", "constant")
    if mode != "constant":
        raise ImportRefused(node, f"its mode is {mode[:20]}; only constants can be padded with")
    numbers = node.get("pads", []) if pads is None else pads.ravel().tolist()
    over = list(range(rank)) if axes is None else [int(axis) % rank for axis in axes.ravel().tolist()]
    if len(numbers) != 2 * len(over):
        raise ImportRefused(node, f"its pads {list(numbers)[:8]} do not fit")
    out = np.zeros((rank, 2), np.int64)
    for k, axis in enumerate(over):
        out[axis] = numbers[k], numbers[k + len(over)]
    fill = float(node.get("value", 0.0)) if value is None else float(value.ravel()[0])
    return out, fill


def pad(
    node: Node, x: Array, pads: Array | None = None, value: Array | None = None, axes: Array | None = None
) -> Array:
    amounts, fill = pads_given(node, x.ndim, pads, value, axes)
    if (amounts < 0).any():
        raise ImportRefused(node, "it cuts off with negative pads")
    _limited(node, [dim + int(both.sum()) for dim, both in zip(x.shape, amounts, strict=True)])
    return np.pad(x, [tuple(both) for both in amounts.tolist()], constant_values=fill)


def _arithmetic(run: Callable[..., Array]) -> Callable[..., Array]:
    """Of whole numbers too, which shapes are made of."""

    def apply(node: Node, *operands: Array) -> Array:
        try:
            _limited(node, np.broadcast_shapes(*(it.shape for it in operands)))
        except ValueError:
            raise ImportRefused(node, "its operands do not fit together") from None
        with np.errstate(all="ignore"):
            y = run(*operands)
        return _f32(y) if any(it.dtype.kind == "f" for it in operands) else np.asarray(y, operands[0].dtype)

    return apply


def _divide(x: Array, y: Array) -> Array:
    return x / y if x.dtype.kind == "f" else x // np.where(y == 0, 1, y)


def _plain(run: Callable[[Array], Array]) -> Callable[..., Array]:
    def apply(_: Node, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return _f32(run(x))

    return apply


def _prelu(x: Array, slope: Array) -> Array:
    return np.where(x < 0, x * slope, x)


def _leaky_relu(node: Node, x: Array) -> Array:
    return _f32(_prelu(x, _f32(node.get("alpha", 0.01))))


def _hard_sigmoid(node: Node, x: Array) -> Array:
    line = _f32(_f32(x * np.float32(node.get("alpha", 0.2))) + np.float32(node.get("beta", 0.5)))
    return np.clip(line, np.float32(0), np.float32(1))


def _comparison(run: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda _, x, y: run(x, y)


def _elu(node: Node, x: Array) -> Array:
    alpha, gamma = (1.67326319217681884765625, 1.05070102214813232421875) if node.op == "Selu" else (1.0, 1.0)
    alpha, gamma = node.get("alpha", alpha), node.get("gamma", gamma)
    size = alpha if node.op == "Celu" else 1.0
    below = alpha * np.expm1(np.minimum(x.astype(np.float64), 0) / size)
    return _f32(gamma * np.where(x > 0, x.astype(np.float64), below))


def _where(node: Node, condition: Array, x: Array, y: Array) -> Array:
    _limited(node, np.broadcast_shapes(condition.shape, x.shape, y.shape))
    return np.where(condition != 0, x, y)


def _identity(_: Node, x: Array, *__: Array | None) -> Array:
    return x


OPERATORS: dict[str, Callable[..., Any]] = {
    "Abs": _plain(np.abs),
    "Add": _arithmetic(np.add),
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "BipolarQuant": bipolar_quant,
    "Cast": cast,
    "Ceil": _plain(np.ceil),
    "Celu": _elu,
    "Clip": clip,
    "Concat": concat,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Conv": conv,
    "DequantizeLinear": dequantize_linear,
    "Div": _arithmetic(_divide),
    "Dropout": _identity,
    "Elu": _elu,
    "Expand": expand,
    "Flatten": lambda node, x: x.reshape(flatten_to(node, x.shape)),
    "Floor": _plain(np.floor),
    "Gather": gather,
    "Gemm": gemm,
    "GlobalAveragePool": global_average,
    "GlobalMaxPool": lambda _, x: x.max(axis=tuple(range(2, x.ndim)), keepdims=True),
    "Greater": _comparison(np.greater),
    "GreaterOrEqual": _comparison(np.greater_equal),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "Identity": _identity,
    "Im2Col": im2col,
    "IntQuant": quant,
    "LeakyRelu": _leaky_relu,
    "Less": _comparison(np.less),
    "LessOrEqual": _comparison(np.less_equal),
    "LogSoftmax": lambda node, x: np.log(softmax(node, x)),
    "MatMul": matmul,
    "Max": _arithmetic(np.maximum),
    "MaxPool": max_pool,
    "Min": _arithmetic(np.minimum),
    "Mul": _arithmetic(np.multiply),
    "MultiThreshold": multi_threshold,
    "Neg": lambda _, x: -x,
    "Not": lambda _, x: x == 0,
    "PRelu": _arithmetic(_prelu),
    "Pad": pad,
    "Pow": _arithmetic(np.power),
    "Quant": quant,
    "QuantizeLinear": quantize_linear,
    "Reciprocal": _plain(np.reciprocal),
    "ReduceMean": reduce_mean,
    "Relu": lambda _, x: np.maximum(x, np.zeros((), x.dtype)),
    "Reshape": lambda node, x, target: x.reshape(reshape_to(node, x.shape, target.ravel().tolist())),
    "Round": _plain(np.round),
    "Shape": lambda node, x: np.array(x.shape[node.get("start", 0) : node.get("end", 99)], np.int64),
    "Selu": _elu,
    "Sigmoid": _plain(_sigmoid),
    "Sign": _plain(np.sign),
    "Slice": slice_,
    "Softmax": softmax,
    "Softplus": _plain(lambda x: np.logaddexp(0, x.astype(np.float64))),
    "Softsign": _plain(lambda x: x / (1 + np.abs(x))),
    "Split": split,
    "Sqrt": _plain(np.sqrt),
    "Squeeze": squeeze,
    "Sub": _arithmetic(np.subtract),
    "Tanh": _plain(np.tanh),
    "Transpose": transpose,
    "Trunc": trunc,
    "Unsqueeze": unsqueeze,
    "Where": _where,
}


def evaluate(node: Node, inputs: Sequence[Array | None]) -> list[Array]:
    """What a node makes of its inputs (None where one is left out)."""
    if node.op not in OPERATORS:
        raise ImportRefused(node, f"{node.op[:40]} has no words in a .ftbnn file")
    try:
        made = OPERATORS[node.op](node, *inputs)
    except ImportRefused:
        raise
    except (TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, OverflowError):
        shapes = ", ".join("none" if it is None else str(list(it.shape)) for it in inputs)
        raise ImportRefused(node, f"it cannot be computed on inputs of {shapes}") from None
    return list(made) if isinstance(made, list) else [np.asarray(made)]


def run(model: OnnxModel, x: Array) -> Array:
    """The network's output on a batch, as its nodes say."""
    values: dict[str, Array | None] = {"": None, **model.constants, model.input: _f32(x)}
    for node in model.nodes:
        made = evaluate(node, [values[name] for name in node.inputs])
        values.update(zip(node.outputs, made, strict=False))
    found = values[model.output]
    assert found is not None
    return found
