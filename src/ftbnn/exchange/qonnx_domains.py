"""Nodes of QONNX's own domains as nodes of ONNX: channels that stand last, and operators that are several others.

A domain that is not known is refused: an operator of the same name may be another one there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftbnn.exchange.qonnx_node import Array, ImportRefused, Node

GENERAL = ("", "ai.onnx", "qonnx.custom_op.general", "finn.custom_op.general", "finn", "onnx.brevitas")
HARDWARE = "finn.custom_op.fpgadataflow"
CHANNELS_LAST = ("qonnx.custom_op.channels_last", "finn.custom_op.channels_last")


def standard(nodes: Sequence[Node], constants: dict[str, Array]) -> list[Node]:
    """The same network in ONNX's operators and QONNX's quantisers; constants that takes are put beside the others."""
    made: list[Node] = []
    for node in nodes:
        writer = _Writer(node, constants)
        if node.domain in CHANNELS_LAST:
            _channels_last(writer)
        elif node.domain.startswith(HARDWARE):
            raise ImportRefused(node, "it is a layer of FINN's hardware; import the network from before that step")
        elif node.domain not in GENERAL:
            raise ImportRefused(node, f"its domain {node.domain[:80]!r} is unknown")
        elif node.op in COMPOUND:
            COMPOUND[node.op](writer)
        else:
            writer.made.append(node)
        made += writer.made
    return made


class _Writer:
    """Nodes that take the place of one, whose name they bear. The last has its outputs."""

    def __init__(self, node: Node, constants: dict[str, Array]) -> None:
        self.node, self.constants = node, constants
        self.made: list[Node] = []

    def add(self, op: str, *inputs: Any, is_last: bool = False, **attributes: Any) -> str:
        """Inputs are names, or constants."""
        name = self.node.outputs[0] if is_last else f"{self.node.outputs[0]} {len(self.made)}"
        given = tuple(it if isinstance(it, str) else self.constant(it) for it in inputs)
        self.made.append(Node(op, self.node.name, given, (name,), attributes, self.node.opset))
        return name

    def constant(self, value: float) -> str:
        name = f"{self.node.outputs[0]} {value}"
        self.constants[name] = np.array(value, np.float32)
        return name


def _first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _channels_last(w: _Writer) -> None:
    node = w.node
    if node.op == "BatchNormalization":
        w.made.append(replace(node, attributes=node.attributes | {"channels_last": 1}))
        return
    if node.op not in ("Conv", "MaxPool"):
        raise ImportRefused(node, "it has no form with channels last")
    _between(w, node.op, node.attributes)


def _between(w: _Writer, op: str, attributes: dict[str, Any]) -> None:
    """An operator of images, of a Conv the weights too, with channels last."""
    rank = len(attributes.get("kernel_shape", [])) + 2
    if rank not in (3, 4):
        raise ImportRefused(w.node, "its kernel_shape does not say how many sides images have")
    turned = 2 if op == "Conv" else 1
    inputs = [
        w.add("Transpose", name, perm=_first(rank)) if k < turned else name for k, name in enumerate(w.node.inputs)
    ]
    w.add("Transpose", w.add(op, *inputs, **attributes), is_last=True, perm=_last(rank))


def _max_pool(w: _Writer) -> None:
    _between(w, "MaxPool", w.node.attributes)


def _average_pool(w: _Writer) -> None:
    """The sum of a window, less the bits that are too many."""
    node = w.node
    kernel, stride, given, wanted = (int(node.get(name, 1)) for name in ("kernel", "stride", "ibits", "obits"))
    if min(kernel, stride, given, wanted) < 1 or max(given, wanted) > 32 or max(kernel, stride) > 2**14:
        raise ImportRefused(node, "its kernel, stride or bits do not fit")
    is_last = node.get("data_layout", "NCHW") == "NHWC"
    shift = max(((2**given - 1) * kernel * kernel).bit_length() - wanted, 0)
    x = w.add("Transpose", node.inputs[0], perm=_first(4)) if is_last else node.inputs[0]
    mean = w.add("AveragePool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2)
    whole = w.add("Round", w.add("Mul", mean, float(kernel * kernel)))
    y = w.add("Floor", w.add("Div", whole, float(2**shift)), is_last=not is_last)
    if is_last:
        w.add("Transpose", y, is_last=True, perm=_last(4))


def _popcount(w: _Writer) -> None:
    """Of bits 0 and 1: how many of a row and a column are the same."""
    weight = w.constants.get(w.node.inputs[1])
    if weight is None or weight.ndim < 1:
        raise ImportRefused(w.node, "its second matrix is not constant")
    signs = [w.add("Sub", w.add("Mul", name, 2.0), 1.0) for name in w.node.inputs]
    w.add("Mul", w.add("Add", w.add("MatMul", *signs), float(len(weight))), 0.5, is_last=True)


def _same(w: _Writer) -> None:
    w.add("Identity", w.node.inputs[0], is_last=True)


def _in_turn(op: str) -> Callable[[_Writer], None]:
    """An operator of any number of inputs, as one of two, again and again."""

    def add(w: _Writer) -> None:
        first, *others = w.node.inputs
        if not others:
            _same(w)
        for k, other in enumerate(others):
            first = w.add(op, first, other, is_last=k == len(others) - 1)

    return add


COMPOUND: dict[str, Callable[[_Writer], None]] = {
    "DebugMarker": _same,
    "Max": _in_turn("Max"),
    "MaxPoolNHWC": _max_pool,
    "Min": _in_turn("Min"),
    "QuantAvgPool2d": _average_pool,
    "Sum": _in_turn("Add"),
    "XnorPopcountMatMul": _popcount,
}
