"""A .ftbnn file in, a QONNX file out: signs as BipolarQuant, steps as MultiThreshold, the rest in plain ONNX.

The signs of a file map 0 to -1, those of QONNX to +1: x > t is the opposite of t - x >= 0, so the codes are those of
t - x, turned round, and it is the weights behind them that are turned.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ftbnn.exchange.qonnx_check import ROUNDING
from ftbnn.exchange.qonnx_import import SAMPLES, import_qonnx
from ftbnn.exchange.qonnx_model import parse
from ftbnn.exchange.qonnx_node import Array
from ftbnn.exchange.qonnx_proto import FLOAT, Message, encode, tensor_of
from ftbnn.files import write_atomically
from ftbnn.packing import graph as kinds
from ftbnn.packing.graph import Epilogue, ExportError, Graph, Operator, Value, Window
from ftbnn.packing.read import read_graph
from ftbnn.packing.write import InputInfo
from ftbnn.runtime import Model, load

IR_VERSION, OPSET = 8, 17
DOMAIN = "qonnx.custom_op.general"
CUSTOM = frozenset(("BipolarQuant", "MultiThreshold", "Quant"))


@dataclass(frozen=True)
class QonnxReport:
    """The file's size, and how far the engine's outputs are from those of the file imported again: the largest
    difference over random images, relative to the largest output of the image."""

    path: Path
    size_bytes: int
    nodes: int
    samples: int
    same_class: float
    largest_error: float


def export_qonnx(source: Path, path: str | Path) -> QonnxReport:
    """Writes the network of a .ftbnn file as QONNX, once that, imported again, has been compared with its own nodes and
    has given the engine's outputs."""
    model = load(source)
    data = encode("Model", onnx_model(read_graph(source), model))
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (SAMPLES, *model.input_shape)) / np.float32(255)
    mean, std = (np.array(numbers, np.float32)[:, None, None] for numbers in (model.mean, model.std))
    images = ((pixels.astype(np.float32) - mean) / std).astype(np.float32)
    with TemporaryDirectory() as folder:
        back = Path(folder) / "back.ftbnn"
        import_qonnx(data, back, samples=images)
        expected, found = model(images), load(back)(images)
    size = np.maximum(np.abs(expected).max(axis=1), np.finfo(np.float32).tiny)
    error = float((np.abs(found - expected).max(axis=1) / size).max())
    if not error <= ROUNDING:
        raise ExportError("", f"its QONNX file gives other outputs than the engine, by {error:.2g} of the largest")
    write_atomically(Path(path), data)
    same = float((found.argmax(1) == expected.argmax(1)).mean())
    nodes = len(parse(data).nodes)
    return QonnxReport(Path(path), len(data), nodes, len(images), same, error)


def onnx_model(graph: Graph, model: Model) -> Message:
    """The whole file, as a message."""
    builder = _Builder(graph.input)
    for operator in graph.operators:
        builder.add(operator)
    builder.node("Identity", [builder.names[graph.output]], output="output")
    info = InputInfo(model.name, model.mean, model.std, model.resize, model.class_names)
    shape = ["N", graph.input.channels, graph.input.height, graph.input.width]
    out = ["N", *builder.sizes(graph.output)]
    return {
        "ir_version": IR_VERSION,
        "producer_name": "ftbnn",
        "opset_import": [{"version": OPSET}, {"domain": DOMAIN, "version": 1}],
        "metadata_props": [{"key": key, "value": value} for key, value in info.metadata().items()],
        "graph": {
            "name": model.name or "network",
            "node": builder.nodes,
            "initializer": builder.tensors,
            "input": [_info("input", shape)],
            "output": [_info("output", out)],
        },
    }


def _info(name: str, shape: list[Any]) -> Message:
    dims = [{"dim_param": dim} if isinstance(dim, str) else {"dim_value": dim} for dim in shape]
    return {"name": name, "type": {"tensor_type": {"elem_type": FLOAT, "shape": {"dim": dims}}}}


class _Builder:
    """Nodes and constants as they come. `names` are of the file's values, `vectors` those that are (N, C)."""

    def __init__(self, start: Value) -> None:
        self.nodes: list[Message] = []
        self.tensors: list[Message] = []
        self.names = {start: "input"}
        self.vectors: set[Value] = set()
        self.count = 0

    def node(self, op: str, inputs: list[str], /, *, output: str = "", **attributes: Any) -> str:
        self.count += 1
        output = output or f"{op}_{self.count}_out"
        given = [_attribute(name, value) for name, value in attributes.items()]
        domain = DOMAIN if op in CUSTOM else ""
        name = f"{op}_{self.count}"
        made = {"op_type": op, "name": name, "domain": domain, "input": inputs, "output": [output], "attribute": given}
        self.nodes.append(made)
        return output

    def constant(self, array: Any) -> str:
        name = f"constant_{len(self.tensors)}"
        numbers = np.asarray(array)
        self.tensors.append(tensor_of(name, numbers if numbers.dtype.kind == "i" else numbers.astype(np.float32)))
        return name

    def per_channel(self, value: Value, numbers: Array) -> str:
        return self.constant(np.asarray(numbers).reshape((1, -1) if value in self.vectors else (1, -1, 1, 1)))

    def sizes(self, value: Value) -> list[int]:
        return [value.channels] if value in self.vectors else [value.channels, value.height, value.width]

    def vector(self, value: Value) -> str:
        """The value as (N, C)."""
        name = self.names[value]
        return name if value in self.vectors else self.node("Flatten", [name], axis=1)

    def add(self, operator: Operator) -> None:
        if type(operator) not in WRITE:
            raise ExportError(operator.path, f"{operator.title} has no words in QONNX")
        name = WRITE[type(operator)](self, operator)
        if isinstance(operator, kinds.Fused):
            name = self.epilogue(operator.output, operator.epilogue, name)
        self.names[operator.output] = name

    def like(self, operator: Operator) -> None:
        """The output is a vector where the input is one."""
        if all(value in self.vectors for value in operator.inputs):
            self.vectors.add(operator.output)

    def epilogue(self, value: Value, end: Epilogue, x: str) -> str:
        if end.scale is not None:
            x = self.node("Mul", [x, self.per_channel(value, end.scale)])
        if end.shift is not None:
            x = self.node("Add", [x, self.per_channel(value, end.shift)])
        if end.first_left is not None:
            assert end.first_right is not None
            x = self.pieces(value, end.first_left, end.first_right, x)
        if end.shortcut is not None:
            other = self.names[end.shortcut]
            if (end.shortcut in self.vectors) != (value in self.vectors):
                shape = self.constant(np.array([-1, *self.sizes(value)], np.int64))
                other = self.node("Reshape", [other, shape])
            x = self.node("Add", [x, other])
        x = self.act(value, end, x)
        return x if end.after is None else self.node("Add", [x, self.per_channel(value, end.after)])

    def act(self, value: Value, end: Epilogue, x: str) -> str:
        if end.act in CURVES:
            op, attributes = CURVES[end.act]
            return self.node(op, [x], **attributes)
        if end.act == "prelu":
            assert end.left is not None
            return self.node("PRelu", [x, self.per_channel(value, end.left)])
        if end.act == "fprelu":
            assert end.left is not None
            assert end.right is not None
            return self.pieces(value, end.left, end.right, x)
        if end.act == "clamp":
            return self.node("Clip", [x, self.constant(end.low), self.constant(end.high)])
        if end.act == "silu":
            return self.node("Mul", [x, self.node("Sigmoid", [x])])
        assert end.act == "none"
        return x

    def pieces(self, value: Value, left: Array, right: Array, x: str) -> str:
        above = self.node("Mul", [self.node("Relu", [x]), self.per_channel(value, right)])
        turned = self.node("Relu", [self.node("Neg", [x])])
        return self.node("Add", [above, self.node("Mul", [turned, self.per_channel(value, -np.asarray(left))])])


CURVES: dict[str, tuple[str, dict[str, Any]]] = {
    "relu": ("Relu", {}),
    "hardsigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "hardswish": ("HardSwish", {}),
    "sigmoid": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
}


def _attribute(name: str, value: Any) -> Message:
    if isinstance(value, float):
        return {"name": name, "type": 1, "f": value}
    if isinstance(value, str):
        return {"name": name, "type": 3, "s": value.encode()}
    return (
        {"name": name, "type": 7, "ints": value} if isinstance(value, list) else {"name": name, "type": 2, "i": value}
    )


def _window(operator: Operator, window: Window) -> dict[str, Any]:
    """As attributes: the padding behind is what the output's size asks for."""
    value, out = operator.inputs[0], operator.output
    behind = []
    for side, count, kernel, stride, before in zip(
        (value.height, value.width),
        (out.height, out.width),
        window.kernel,
        window.stride,
        window.padding,
        strict=True,
    ):
        after = max(0, (count - 1) * stride + kernel - side - before)
        if (side + before + after - kernel) // stride + 1 != count:
            raise ExportError(operator.path, "its windows stop before the image does, which ONNX has no words for")
        behind.append(after)
    pads = [*window.padding, *behind]
    return {"kernel_shape": list(window.kernel), "strides": list(window.stride), "pads": pads}


def _convolve(b: _Builder, operator: Any, x: str, weights: list[str], inside: int) -> str:
    """One convolution, or two where the last group is larger than the others."""
    window = _window(operator, operator.window)
    if len(weights) == 1:
        return b.node("Conv", [x, weights[0]], group=operator.groups, **window)
    head = inside * (operator.groups - 1)
    axis = b.constant(np.array([1], np.int64))
    parts = []
    for weight, first, last, groups in ((weights[0], 0, head, operator.groups - 1), (weights[1], head, 2**31, 1)):
        ends = [b.constant(np.array([number], np.int64)) for number in (first, last)]
        part = b.node("Slice", [x, *ends, axis])
        parts.append(b.node("Conv", [part, weight], group=groups, **window))
    return b.node("Concat", parts, axis=1)


def _is_dense(b: _Builder, operator: Any) -> bool:
    return operator.inputs[0] in b.vectors and operator.groups == 1 and operator.window.kernel == (1, 1)


def _map(b: _Builder, value: Value) -> str:
    """The value as (N, C, H, W)."""
    if value not in b.vectors:
        return b.names[value]
    return b.node("Reshape", [b.names[value], b.constant(np.array([-1, value.channels, 1, 1], np.int64))])


def _product(b: _Builder, operator: Any, x: str | None, weights: list[Array], wrap: Callable[[Array], str]) -> str:
    """A convolution, or a matrix where its input is a vector. `wrap` makes a constant of weights."""
    if _is_dense(b, operator):
        b.vectors.add(operator.output)
        return b.node("MatMul", [x or b.names[operator.inputs[0]], wrap(weights[0][:, :, 0, 0].T)])
    return _convolve(b, operator, x or _map(b, operator.inputs[0]), [wrap(w) for w in weights], weights[0].shape[1])


def _conv(b: _Builder, operator: kinds.Conv) -> str:
    return _product(b, operator, None, list(operator.weights), b.constant)


def _rounded(b: _Builder, operator: kinds.RoundedConv) -> str:
    units = np.split(operator.unit, np.cumsum([len(part) for part in operator.integers])[:-1])
    parts = list(operator.weights)
    scales = {id(part): unit for part, unit in zip(parts, units, strict=True)}
    bits, zero = b.constant(float(operator.bits)), b.constant(0.0)

    def wrap(weight: Array) -> str:
        base = weight if id(weight) in scales else parts[0]
        unit = scales[id(base)].reshape((1, -1) if weight.ndim == 2 else (-1, 1, 1, 1))
        return b.node(
            "Quant", [b.constant(weight), b.constant(unit), zero, bits], narrow=1, signed=1, rounding_mode="ROUND"
        )

    return _product(b, operator, None, parts, wrap)


def _bconv(b: _Builder, operator: kinds.BConv) -> str:
    value = operator.inputs[0]
    dense = _is_dense(b, operator)
    x = b.names[value] if dense else _map(b, value)
    if operator.threshold is None:
        x = b.node("Neg", [x])
    else:
        shape = (1, -1) if dense else (1, -1, 1, 1)
        x = b.node("Sub", [b.constant(operator.threshold.reshape(shape)), x])
    one = b.constant(1.0)
    x = b.node("BipolarQuant", [x, one])
    if operator.zero_one:
        x = b.node("Add", [b.node("Mul", [x, b.constant(-0.5)]), b.constant(0.5)])
    turned = 1.0 if operator.zero_one else -1.0
    weights = [turned * (2.0 * part - 1) for part in operator.positive]
    return _product(b, operator, x, weights, lambda weight: b.node("BipolarQuant", [b.constant(weight), one]))


def _linear(b: _Builder, operator: kinds.Linear) -> str:
    x = b.vector(operator.inputs[0])
    b.vectors.add(operator.output)
    return b.node("MatMul", [x, b.constant(operator.weight.T)])


def _max_pool(b: _Builder, operator: kinds.MaxPool) -> str:
    return b.node("MaxPool", [_map(b, operator.inputs[0])], **_window(operator, operator.window))


def _avg_pool(b: _Builder, operator: kinds.AvgPool) -> str:
    window = _window(operator, operator.window)
    return b.node("AveragePool", [_map(b, operator.inputs[0])], count_include_pad=int(operator.whole), **window)


def _average_to(b: _Builder, operator: kinds.AverageTo) -> str:
    value, out = operator.inputs[0], operator.output
    x = _map(b, value)
    if (out.height, out.width) == (1, 1):
        return b.node("GlobalAveragePool", [x])
    if value.height % out.height or value.width % out.width:
        raise ExportError(operator.path, "its windows are of several sizes, which ONNX has no words for")
    kernel = [value.height // out.height, value.width // out.width]
    return b.node("AveragePool", [x], kernel_shape=kernel, strides=kernel)


def _concat(b: _Builder, operator: kinds.Concat) -> str:
    b.like(operator)
    alike = operator.output in b.vectors
    return b.node("Concat", [b.names[it] if alike else _map(b, it) for it in operator.inputs], axis=1)


def _combine(b: _Builder, operator: kinds.Combine) -> str:
    b.like(operator)
    alike = operator.output in b.vectors
    inputs = [b.names[it] if alike else _map(b, it) for it in operator.inputs]
    return b.node("Add" if operator.is_sum else "Mul", inputs)


def _factors(b: _Builder, operator: kinds.Map) -> str:
    factors = b.constant(operator.factors.reshape(1, 1, *operator.factors.shape))
    return b.node("Mul", [_map(b, operator.inputs[0]), factors])


def _channels(b: _Builder, operator: kinds.Channels) -> str:
    b.like(operator)
    return b.node("Gather", [b.names[operator.inputs[0]], b.constant(operator.source.astype(np.int64))], axis=1)


def _pointwise(b: _Builder, operator: kinds.Pointwise) -> str:
    b.like(operator)
    return b.names[operator.inputs[0]]


def _flatten(b: _Builder, operator: kinds.Flatten) -> str:
    b.vectors.add(operator.output)
    return b.vector(operator.inputs[0])


def _steps(b: _Builder, operator: kinds.Steps) -> str:
    """Greater than t is no less than the number behind t."""
    b.like(operator)
    with np.errstate(over="ignore"):
        above = np.nextafter(operator.thresholds.astype(np.float32), np.float32(np.inf))
    kind = next((f"UINT{bits}" for bits in (1, 2, 3, 4, 8) if operator.count < 2**bits), "UINT32")
    x = b.names[operator.inputs[0]]
    return b.node("MultiThreshold", [x, b.constant(above)], out_dtype=kind, out_scale=1.0, out_bias=0.0)


WRITE: dict[type[Operator], Callable[[_Builder, Any], str]] = {
    kinds.Conv: _conv,
    kinds.BConv: _bconv,
    kinds.Linear: _linear,
    kinds.MaxPool: _max_pool,
    kinds.AvgPool: _avg_pool,
    kinds.AverageTo: _average_to,
    kinds.Concat: _concat,
    kinds.Channels: _channels,
    kinds.Pointwise: _pointwise,
    kinds.Flatten: _flatten,
    kinds.RoundedConv: _rounded,
    kinds.Steps: _steps,
    kinds.Combine: _combine,
    kinds.Map: _factors,
}
