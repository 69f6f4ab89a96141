"""A .tflite file as nodes of ONNX, those of Larq Compute Engine too: what is then lowered and checked is the same.

Images are (N, H, W, C) there. A tensor of four dimensions is (N, C, H, W) here, from the input to the output; only
what reshapes one turns it. What Larq packs to bits stands as -1 and +1: a bit of theirs is 1 where x < 0.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftbnn.errors import UserError
from ftbnn.exchange.qonnx_model import MOST_NODES, OnnxModel
from ftbnn.exchange.qonnx_node import MOST_ELEMENTS, Array, ImportRefused, Node
from ftbnn.exchange.tflite_flat import NotTflite, Table, flex_map
from ftbnn.text import line

INPUT = "image"
TO_FIRST, TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]
# TensorFlow Lite's numbers of types.
FLOAT32, FLOAT16, INT32 = 0, 1, 2
TYPES = {0: "<f4", 1: "<f2", 2: "<i4", 3: "<u1", 4: "<i8", 6: "?", 7: "<i2", 9: "<i1"}
BUILTIN = {
    0: "ADD", 1: "AVERAGE_POOL_2D", 2: "CONCATENATION", 3: "CONV_2D", 4: "DEPTHWISE_CONV_2D", 6: "DEQUANTIZE",
    9: "FULLY_CONNECTED", 14: "LOGISTIC", 17: "MAX_POOL_2D", 18: "MUL", 19: "RELU", 20: "RELU_N1_TO_1", 21: "RELU6",
    22: "RESHAPE", 25: "SOFTMAX", 28: "TANH", 32: "CUSTOM", 34: "PAD", 40: "MEAN", 41: "SUB", 43: "SQUEEZE",
    54: "PRELU", 59: "NEG", 60: "PADV2", 98: "LEAKY_RELU", 114: "QUANTIZE", 117: "HARD_SWISH",
}  # fmt: skip
SAME = 0


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


WORD = 32  # bits
MOST_RANK = 8


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file; `data` where it is a constant."""

    name: str
    shape: tuple[int, ...]
    kind: int
    data: Array | None


@dataclass(frozen=True)
class Op:
    """An operator of the file: tensors by number, -1 where one is left out."""

    kind: str
    inputs: tuple[int, ...]
    output: int
    options: Table | None
    custom: bytes

    def option(self, slot: int, kind: str = "<i", default: Any = 0) -> Any:
        return default if self.options is None else self.options.number(slot, kind, default)


def parse_tflite(data: bytes) -> OnnxModel:
    """Raises UserError in one line for everything that is not as it should be."""
    model = Table.root(data)
    graphs = model.tables(2)
    if len(graphs) != 1:
        raise ImportRefused(None, f"it has {len(graphs)} graphs; one can be held")
    codes = [_code(it) for it in model.tables(1)]
    buffers = [it.numbers(0, "<u1") for it in model.tables(4)]
    tensors = [_tensor(it, buffers) for it in graphs[0].tables(0)]
    operators = graphs[0].tables(3)
    if len(operators) > MOST_NODES:
        raise ImportRefused(None, f"it has {len(operators)} operators; at most {MOST_NODES} are read")
    ins, outs = (graphs[0].few(slot) for slot in (1, 2))
    if len(ins) != 1 or len(outs) != 1:
        raise ImportRefused(None, f"it has {len(ins)} inputs and {len(outs)} outputs; a .ftbnn file has one of each")
    return _Writer(tensors, ins[0], outs[0]).model([_operator(it, codes, len(tensors)) for it in operators])


def _code(table: Table) -> str:
    """Newer files have numbers beyond 127 in a field of their own."""
    number = max(table.number(0, "<b"), table.number(3))
    kind = BUILTIN.get(number, f"BUILTIN_{number}")
    return table.text(1) if kind == "CUSTOM" else kind


def _tensor(table: Table, buffers: Sequence[Array]) -> Tensor:
    name, kind, buffer = table.text(3), table.number(1, "<b"), table.number(2, "<I")
    shape = table.few(0)
    if len(shape) > MOST_RANK or any(dim < 0 for dim in shape) or math.prod(shape) > MOST_ELEMENTS:
        raise NotTflite(f"{line(name, 80)} has the impossible shape {list(shape)[:MOST_RANK]}")
    if buffer >= len(buffers):
        raise NotTflite(f"{line(name, 80)} is in buffer {buffer} of {len(buffers)}")
    raw = buffers[buffer]
    if not raw.size:
        return Tensor(name, shape, kind, None)
    if kind not in TYPES:
        raise NotTflite(f"{line(name, 80)} has elements of the unknown type {kind}")
    dtype = np.dtype(TYPES[kind])
    if raw.size != math.prod(shape) * dtype.itemsize:
        raise NotTflite(f"{line(name, 80)} says it has {math.prod(shape)} elements and holds {raw.size} bytes")
    return Tensor(name, shape, kind, raw.view(dtype).reshape(shape))  # not copied: many tensors may share a buffer


def _operator(table: Table, codes: Sequence[str], tensors: int) -> Op:
    code = table.number(0, "<I")
    inputs, outputs = (table.few(slot) for slot in (1, 2))
    if code >= len(codes) or any(not -1 <= k < tensors for k in inputs) or any(not 0 <= k < tensors for k in outputs):
        raise NotTflite("an operator reads or writes what is not there")
    kind = codes[code]
    if len(outputs) != 1:
        raise ImportRefused(Node(kind, "", (), ()), f"it has {len(outputs)} outputs")
    return Op(kind, inputs, outputs[0], table.table(4), bytes(table.few(5, "<u1")))


class _Writer:
    """Nodes as they come, in the file's order."""

    def __init__(self, tensors: list[Tensor], start: int, end: int) -> None:
        if not 0 <= start < len(tensors) or not 0 <= end < len(tensors):
            raise NotTflite("its input or output is not there")
        self.tensors, self.start, self.end = tensors, start, end
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.names: dict[int, str] = {}
        self.op = Op("", (), 0, None, b"")

    def model(self, operators: Sequence[Op]) -> OnnxModel:
        start = self.tensors[self.start]
        if start.kind != FLOAT32 or not 2 <= len(start.shape) <= 4 or min(start.shape) < 1:
            raise ImportRefused(None, f"its input {line(start.name, 80)!r} is not of float32 images")
        self.names[self.start] = INPUT
        if len(start.shape) == 4:
            self.names[self.start] = self.node("Transpose", [INPUT], perm=TO_FIRST)
        for op in operators:
            self.op = op
            rule = RULES.get(op.kind)
            if rule is None:
                raise self.refuse("a .ftbnn file has no words for it (docs/exchange.md lists what it has)")
            try:
                self.names[op.output] = rule(self)
            except UserError:
                raise
            except (IndexError, ValueError, TypeError, AttributeError, ZeroDivisionError) as error:
                raise self.refuse(f"its inputs or options do not fit ({type(error).__name__})") from error
        if self.end not in self.names:
            raise NotTflite("nothing writes its output")
        return OnnxModel("", tuple(self.nodes), self.constants, INPUT, start.shape, self.names[self.end], {})

    def refuse(self, reason: str) -> ImportRefused:
        written = Node(self.op.kind, self.tensors[self.op.output].name, (), ("",))
        return ImportRefused(written, reason)

    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"{op}_{len(self.nodes)}"
        given = f"{self.op.kind} {self.tensors[self.op.output].name}" if self.op.kind else INPUT
        self.nodes.append(Node(op, given, tuple(inputs), (name,), attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"constant_{len(self.constants)}"
        numbers = np.asarray(array)
        self.constants[name] = numbers if numbers.dtype.kind == "i" else numbers.astype(np.float32, copy=False)
        return name

    def shape(self, k: int) -> tuple[int, ...]:
        return self.tensors[self.op.inputs[k]].shape

    def given(self, k: int) -> bool:
        return k < len(self.op.inputs) and self.op.inputs[k] >= 0

    def data(self, k: int) -> Array:
        """A constant input."""
        found = self.tensors[self.op.inputs[k]]
        if found.data is None or self.op.inputs[k] < 0:
            raise self.refuse(f"its input {k + 1} is not constant")
        if found.kind not in (FLOAT32, FLOAT16, INT32):
            raise self.refuse(f"its constants are of {found.data.dtype}; float32 can be held")
        return found.data

    def x(self, k: int = 0) -> str:
        """An input that depends on the image, or a constant as one that broadcasts to it."""
        number = self.op.inputs[k]
        if number in self.names:
            vector = len(self.tensors[number].shape) == 2 and len(self.tensors[self.op.output].shape) == 4
            # Of one image a vector broadcasts along the last axis, which is that of channels.
            return (
                self.node("Unsqueeze", [self.names[number], self.constant(i64(2, 3))]) if vector else self.names[number]
            )
        constant = self.data(k)
        if constant.ndim == 4:
            return self.constant(constant.transpose(TO_FIRST))
        is_map = len(self.tensors[self.op.output].shape) == 4
        if is_map and constant.size > 1:  # along the last axes of images
            padded = constant.reshape([*[1] * (4 - constant.ndim), *constant.shape])
            return self.constant(padded.transpose(TO_FIRST))
        return self.constant(constant)

    def activated(self, x: str, kind: int) -> str:
        if kind == 0:
            return x
        if kind not in ACTIVATIONS:
            raise self.refuse(f"its fused activation {kind} cannot be held")
        return ACTIVATIONS[kind](self, x)


def _clip(low: float, high: float) -> Callable[["_Writer", str], str]:
    return lambda w, x: w.node("Clip", [x, w.constant(low), w.constant(high)])


ACTIVATIONS: dict[int, Callable[[_Writer, str], str]] = {
    1: lambda w, x: w.node("Relu", [x]),
    2: _clip(-1.0, 1.0),
    3: _clip(0.0, 6.0),
    4: lambda w, x: w.node("Tanh", [x]),
}


def _window(
    w: _Writer, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: int
) -> list[int]:
    """Pads at the top, left, bottom and right."""
    if min(*stride, *dilation, *kernel) < 1:
        raise w.refuse("its window has a size that is not positive")
    if padding != SAME:
        return [0, 0, 0, 0]
    sides = w.shape(0)[1:3]
    total = [
        max((-(-side // step) - 1) * step + (size - 1) * gap + 1 - side, 0)
        for side, size, step, gap in zip(sides, kernel, stride, dilation, strict=True)
    ]
    return [it // 2 for it in total] + [it - it // 2 for it in total]


def _conv(w: _Writer) -> str:
    option, weight = w.op.option, w.data(1)
    outputs, *kernel, inside = weight.shape
    stride, dilation = [option(2), option(1)], [option(5, default=1), option(4, default=1)]
    pads = _window(w, kernel, stride, dilation, option(0, "<b"))
    channels = w.shape(0)[3]
    if channels % inside or outputs % (channels // inside):
        raise w.refuse(f"its weights {list(weight.shape)} do not fit {channels} channels")
    inputs = [w.x(), w.constant(weight.transpose(TO_FIRST)), *([w.constant(w.data(2))] if w.given(2) else [])]
    y = w.node("Conv", inputs, strides=stride, dilations=dilation, pads=pads, group=channels // inside)
    return w.activated(y, option(3, "<b"))


def _depthwise(w: _Writer) -> str:
    option, weight = w.op.option, w.data(1)
    _, *kernel, outputs = weight.shape
    stride, dilation = [option(2), option(1)], [option(6, default=1), option(5, default=1)]
    pads = _window(w, kernel, stride, dilation, option(0, "<b"))
    channels = w.shape(0)[3]
    if outputs % channels:
        raise w.refuse(f"its weights {list(weight.shape)} do not fit {channels} channels")
    inputs = [w.x(), w.constant(weight.transpose(3, 0, 1, 2)), *([w.constant(w.data(2))] if w.given(2) else [])]
    y = w.node("Conv", inputs, strides=stride, dilations=dilation, pads=pads, group=channels)
    return w.activated(y, option(4, "<b"))


def _pool(op: str) -> Callable[[_Writer], str]:
    def rule(w: _Writer) -> str:
        option = w.op.option
        kernel, stride = [option(4), option(3)], [option(2), option(1)]
        pads = _window(w, kernel, stride, (1, 1), option(0, "<b"))
        return w.activated(w.node(op, [w.x()], kernel_shape=kernel, strides=stride, pads=pads), option(5, "<b"))

    return rule


def _dense(w: _Writer) -> str:
    weight, x = w.data(1), w.x()
    shape, out = w.shape(0), w.tensors[w.op.output].shape
    if w.op.option(1, "<b") or len(out) != 2 or math.prod(shape) != shape[0] * weight.shape[1]:
        raise w.refuse(f"weights of {list(weight.shape)} on {list(shape)}; a matrix on vectors can be held")
    if len(shape) != 2:
        x = w.node("Reshape", [_last(w, x, shape), w.constant(i64(shape[0], weight.shape[1]))])
    inputs = [x, w.constant(weight), *([w.constant(w.data(2))] if w.given(2) else [])]
    return w.activated(w.node("Gemm", inputs, transB=1), w.op.option(0, "<b"))


def _last(w: _Writer, x: str, shape: Sequence[int]) -> str:
    """As the file has it, channels last."""
    return w.node("Transpose", [x], perm=TO_LAST) if len(shape) == 4 else x


def _reshape(w: _Writer) -> str:
    shape = w.tensors[w.op.output].shape
    y = w.node("Reshape", [_last(w, w.x(), w.shape(0)), w.constant(i64(*shape))])
    return w.node("Transpose", [y], perm=TO_FIRST) if len(shape) == 4 else y


def _mean(w: _Writer) -> str:
    rank = len(w.shape(0))
    axes = sorted({int(axis) % rank for axis in w.data(1).ravel()})
    keeps = w.op.option(0, "<b")
    if rank == 4:
        if axes != [1, 2]:
            raise w.refuse(f"it takes a mean over the axes {axes}; only one over the pixels can be held")
        axes = [2, 3]
    return w.node("ReduceMean", [w.x()], axes=axes, keepdims=int(keeps))


def _two(op: str) -> Callable[[_Writer], str]:
    return lambda w: w.activated(w.node(op, [w.x(0), w.x(1)]), w.op.option(0, "<b"))


def _concat(w: _Writer) -> str:
    rank = len(w.tensors[w.op.output].shape)
    axis = w.op.option(0) % rank
    joined = w.node(
        "Concat", [w.x(k) for k in range(len(w.op.inputs))], axis=TO_FIRST.index(axis) if rank == 4 else axis
    )
    return w.activated(joined, w.op.option(1, "<b"))


def _pad(w: _Writer) -> str:
    amounts = w.data(1).astype(np.int64)
    if amounts.shape != (len(w.shape(0)), 2):
        raise w.refuse(f"its paddings have the shape {list(amounts.shape)}")
    fill = float(w.data(2).ravel()[0]) if w.given(2) else 0.0
    ordered = amounts[TO_FIRST] if len(amounts) == 4 else amounts
    return w.node("Pad", [w.x(), w.constant(ordered.T.ravel()), w.constant(fill)])


def _prelu(w: _Writer) -> str:
    return w.node("PRelu", [w.x(), w.x(1)])


def _softmax(w: _Writer) -> str:
    if w.op.option(0, "<f", 0.0) != 1:
        raise w.refuse("its beta is not 1")
    return w.node("Softmax", [w.x()], axis=1 if len(w.shape(0)) == 4 else len(w.shape(0)) - 1)


def _dequantize(w: _Writer) -> str:
    """Of constants of 16 bits."""
    if w.tensors[w.op.inputs[0]].kind != FLOAT16:
        raise w.refuse("it reads whole numbers with a scale; only constants of float16 can be held")
    return w.x()


def _plain(op: str, **attributes: Any) -> Callable[[_Writer], str]:
    return lambda w: w.node(op, [w.x()], **attributes)


# Larq Compute Engine.
def _unpacked(w: _Writer, packed: Array, channels: int) -> Array:
    """Weights (out, kh, kw, words) as -1 and +1, (out, channels, kh, kw)."""
    if packed.dtype.kind != "i" or packed.ndim != 4 or not 0 < channels <= WORD * packed.shape[3]:
        raise w.refuse(f"its weights {list(packed.shape)} are not packed bits of {channels} channels")
    bits = np.unpackbits(np.ascontiguousarray(packed, "<i4").view("<u1"), axis=-1, bitorder="little")
    return np.ascontiguousarray(1.0 - 2.0 * bits[..., :channels].transpose(TO_FIRST).astype(np.float32))


BCONV_OPTIONS = (
    "channels_in",
    "stride_height",
    "stride_width",
    "dilation_height_factor",
    "dilation_width_factor",
    "padding",
)


def _bconv(w: _Writer) -> str:
    found = flex_map(w.op.custom)
    if missing := [name for name in BCONV_OPTIONS if name not in found]:
        raise w.refuse(f"its options lack {missing[0]}")
    channels, high, wide, down, across, padding = (found[name] for name in BCONV_OPTIONS)
    packed, out = w.data(1), w.tensors[w.op.output]
    words = -(-channels // WORD)
    if (
        packed.ndim != 4
        or not packed.size
        or words % packed.shape[3]
        or channels % (groups := words // packed.shape[3])
    ):
        raise w.refuse(f"its weights {list(packed.shape)} do not fit {channels} channels")
    if groups > 1 and channels % (groups * WORD):
        raise w.refuse("its groups share words of bits")
    weight = _unpacked(w, packed, channels // groups)
    kernel = list(weight.shape[2:])
    pads = _window(w, kernel, (high, wide), (down, across), padding)
    x = w.x()
    if found.get("pad_values", 0) == 1 and any(pads):
        x = w.node("Pad", [x, w.constant(i64(0, 0, *pads[:2], 0, 0, *pads[2:])), w.constant(1.0)])
        pads = [0, 0, 0, 0]
    attributes = {"strides": [high, wide], "dilations": [down, across], "pads": pads, "group": groups}
    y = w.node("Conv", [x, w.constant(weight)], **attributes)
    sides = (-1, 1, 1)
    if out.kind == FLOAT32:
        y = w.activated(y, found.get("fused_activation_function", 0))
        y = w.node("Mul", [y, w.constant(w.data(2).reshape(sides))])
        return w.node("Add", [y, w.constant(w.data(3).reshape(sides))])
    if out.kind != INT32:
        raise w.refuse("it writes whole numbers with a scale; float32 and bits can be held")
    # A bit is 1, and stands for -1, where more products than the threshold are -1.
    largest = weight[0].size - 2.0 * w.data(4).astype(np.float64)
    return w.node("BipolarQuant", [w.node("Sub", [y, w.constant(largest.reshape(sides))]), w.constant(1.0)])


def _bits_max_pool(w: _Writer) -> str:
    found = flex_map(w.op.custom)
    kernel, stride = ([found[f"{name}_{side}"] for side in ("height", "width")] for name in ("filter", "stride"))
    pads = _window(w, kernel, stride, (1, 1), found["padding"])
    return w.node("MaxPool", [w.x()], kernel_shape=kernel, strides=stride, pads=pads)


def _quantize(w: _Writer) -> str:
    return w.node("BipolarQuant", [w.x(), w.constant(1.0)])


RULES: dict[str, Callable[[_Writer], str]] = {
    "ADD": _two("Add"),
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "CONCATENATION": _concat,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "DEQUANTIZE": _dequantize,
    "FULLY_CONNECTED": _dense,
    "HARD_SWISH": _plain("HardSwish"),
    "LEAKY_RELU": lambda w: w.node("LeakyRelu", [w.x()], alpha=float(w.op.option(0, "<f", 0.0))),
    "LOGISTIC": _plain("Sigmoid"),
    "LceBMaxPool2d": _bits_max_pool,
    "LceBconv2d": _bconv,
    "LceDequantize": _plain("Identity"),
    "LceQuantize": _quantize,
    "MAX_POOL_2D": _pool("MaxPool"),
    "MEAN": _mean,
    "MUL": _two("Mul"),
    "NEG": _plain("Neg"),
    "PAD": _pad,
    "PADV2": _pad,
    "PRELU": _prelu,
    "RELU": _plain("Relu"),
    "RELU6": lambda w: ACTIVATIONS[3](w, w.x()),
    "RELU_N1_TO_1": lambda w: ACTIVATIONS[2](w, w.x()),
    "RESHAPE": _reshape,
    "SOFTMAX": _softmax,
    "SQUEEZE": _reshape,
    "SUB": _two("Sub"),
    "TANH": _plain("Tanh"),
}
