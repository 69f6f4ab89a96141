"""The same binary network as an OpenVINO graph, with its `BinaryConvolution`: the fastest other engine for it.

Two operators have no counterpart there. An FPReLU becomes a PReLU with its left slope: the right slope, 1 in a network
that was not trained, is left out, which spares OpenVINO a multiplication. The AND form has no mode of its own; with
bits c in {0, 1} and padding taken as -1 it is, exactly and at no cost,

    sum w c = (sum w (2c - 1) + sum w) / 2      both constants go into the scale and shift that follow
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops
from numpy.typing import NDArray

from ftbnn.errors import UserError
from ftbnn.packing.graph import (
    AverageTo,
    AvgPool,
    BConv,
    Channels,
    Concat,
    Conv,
    Epilogue,
    Flatten,
    Fused,
    Graph,
    Linear,
    MaxPool,
    Operator,
    Pointwise,
    RoundedConv,
    Value,
    Window,
)

Node = Any
PADDED_TAP = {False: 0.0, True: -1.0}  # by zero_one: contributes nothing; is the bit 0


def binary_model(graph: Graph, batch: int) -> Any:
    """An OpenVINO model from (batch, channels, height, width) to (batch, outputs)."""
    image = ops.parameter([batch, *_shape(graph.input)], np.float32, name="input")
    nodes: dict[Value, Node] = {graph.input: image}
    for operator in graph.operators:
        words = operator.epilogue if isinstance(operator, RoundedConv) else operator
        if words.version > 1:
            raise UserError(f"no binary row: {operator.path} has a threshold or non-linearity that is not given to it")
        node = BUILD[type(operator)](operator, *(nodes[value] for value in operator.inputs))
        if isinstance(operator, Fused):
            node = _finish(operator, node, nodes)
        nodes[operator.output] = node
    scores = ops.reshape(nodes[graph.output], [batch, graph.output.size], False)
    return ov.Model([scores], [image], "binary")


def _shape(value: Value) -> tuple[int, int, int]:
    return value.channels, value.height, value.width


def _per_channel(numbers: NDArray[Any]) -> Node:
    return ops.constant(np.asarray(numbers, np.float32).reshape(1, -1, 1, 1))


def _pads_end(operator: Operator, window: Window) -> list[int]:
    """What the last window covers beyond the image."""
    value, out = operator.inputs[0], operator.output
    return [
        max(0, (n - 1) * stride + kernel - padding - size)
        for n, size, kernel, stride, padding in zip(
            _shape(out)[1:], _shape(value)[1:], window.kernel, window.stride, window.padding, strict=True
        )
    ]


def _in_groups(
    operator: Conv | BConv | RoundedConv, x: Node, weights: Sequence[NDArray[Any]], convolve: Callable[..., Node]
) -> Node:
    """convolve(inputs, weights) for every group: neither convolution of OpenVINO takes uneven groups."""
    if operator.groups == 1:
        return convolve(x, weights[0])
    equal = operator.groups - (len(weights) - 1)  # a second array is the last group, larger than the others
    outputs, channel = [], 0
    for block in (*np.split(weights[0], equal), *weights[1:]):
        part = ops.gather(x, np.arange(channel, channel + block.shape[1], dtype=np.int64), np.int64(1))
        outputs.append(convolve(part, block))
        channel += block.shape[1]
    return ops.concat(outputs, 1)


def _conv(operator: Conv | RoundedConv, x: Node) -> Node:
    window = operator.window
    where = (list(window.stride), list(window.padding), _pads_end(operator, window), [1, 1])

    def convolve(part: Node, weight: NDArray[Any]) -> Node:
        return ops.convolution(part, ops.constant(weight.astype(np.float32)), *where)

    return _in_groups(operator, x, operator.weights, convolve)


def _bconv(operator: BConv, x: Node) -> Node:
    window = operator.window
    where = (list(window.stride), list(window.padding), _pads_end(operator, window), [1, 1])
    zero, one = (ops.constant(np.full((1, 1, 1, 1), value, np.float32)) for value in (0, 1))

    def convolve(part: Node, positive: NDArray[Any]) -> Node:
        if positive.shape[1] % 8:
            raise UserError(
                f"its BinaryConvolution gives wrong results for channels that are not a multiple of 8; "
                f"{operator.path} has {positive.shape[1]}"
            )
        bits = ov.Tensor(ov.Type.u1, ov.Shape(positive.shape))  # owns its memory: a constant only points to it
        bits.data.reshape(-1)[:] = np.packbits(positive.reshape(-1), bitorder="little")
        codes = ops.fake_quantize(part, zero, zero, zero, one, 2)
        filters = ov.op.Constant(bits)
        return ops.binary_convolution(codes, filters, *where, "xnor-popcount", PADDED_TAP[operator.zero_one])

    return _in_groups(operator, x, operator.positive, convolve)


def _linear(operator: Linear, x: Node) -> Node:
    rows = ops.reshape(x, [0, operator.inputs[0].channels], True)
    product = ops.matmul(rows, ops.constant(operator.weight.astype(np.float32)), False, True)
    return ops.reshape(product, [0, operator.output.channels, 1, 1], True)


def _max_pool(operator: MaxPool, x: Node) -> Node:
    window = operator.window
    pads = list(window.padding), _pads_end(operator, window)
    return ops.max_pool(x, list(window.stride), [1, 1], *pads, list(window.kernel)).output(0)


def _avg_pool(operator: AvgPool, x: Node) -> Node:
    window = operator.window
    pads = list(window.padding), _pads_end(operator, window)
    return ops.avg_pool(x, list(window.stride), *pads, list(window.kernel), not operator.whole)


def _average_to(operator: AverageTo, x: Node) -> Node:
    if (operator.output.height, operator.output.width) == (1, 1):
        return ops.reduce_mean(x, [2, 3], True)
    return ops.adaptive_avg_pool(x, [operator.output.height, operator.output.width])


def _flatten(operator: Flatten, x: Node) -> Node:
    return ops.reshape(x, [0, operator.output.channels, 1, 1], True)


def _finish(operator: Fused, x: Node, nodes: dict[Value, Node]) -> Node:
    """y = act(scale * acc + shift + shortcut)."""
    end: Epilogue = operator.epilogue
    scale, shift = end.scale, end.shift
    if isinstance(operator, BConv) and operator.zero_one:
        sums = np.concatenate([(2.0 * part - 1).sum(axis=(1, 2, 3)) for part in operator.positive])
        scale = np.full(len(sums), 0.5) if scale is None else scale / 2
        shift = scale * sums + (0 if shift is None else shift)
    if scale is not None:
        x = ops.multiply(x, _per_channel(scale))
    if shift is not None:
        x = ops.add(x, _per_channel(shift))
    if end.shortcut is not None:
        x = ops.add(x, nodes[end.shortcut])
    if end.act == "relu":
        return ops.relu(x)
    if end.left is not None:
        return ops.prelu(x, ops.constant(end.left.astype(np.float32)))
    return x


BUILD: dict[type[Operator], Callable[..., Node]] = {
    Conv: _conv,
    BConv: _bconv,
    RoundedConv: _conv,
    Linear: _linear,
    MaxPool: _max_pool,
    AvgPool: _avg_pool,
    AverageTo: _average_to,
    Concat: lambda _, *nodes: ops.concat(list(nodes), 1),
    Channels: lambda operator, x: ops.gather(x, operator.source.astype(np.int64), np.int64(1)),
    Pointwise: lambda _, x: x,
    Flatten: _flatten,
}
