"""The nodes of a QONNX network as operators of a .ftbnn file: constants are computed, the rest goes by rules."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ftbnn.exchange.qonnx_feature import Feature, Writer, dims_of, is_in_order
from ftbnn.exchange.qonnx_model import OnnxModel
from ftbnn.exchange.qonnx_node import Array, ImportRefused, Node
from ftbnn.exchange.qonnx_reference import evaluate
from ftbnn.exchange.qonnx_rules import ELEMENTWISE, RULES, Call
from ftbnn.packing.fold import fold
from ftbnn.packing.graph import Epilogue, Graph, Value

# What ends a classifier behind its scores: the reason why it may be left out.
SHARES, BEST = "scores rank alike without it", "the file gives all scores, `Model.top` the best"
LEFT_OUT_AT_THE_END = {"ArgMax": BEST, "LogSoftmax": SHARES, "Softmax": SHARES, "TopK": BEST}
# Read real numbers, whatever they are given.
READ_NUMBERS = frozenset("Add AveragePool Concat GlobalAveragePool Mul ReduceMean Sub".split())
LAST = ("Im2Col", "MatMul")  # have channels last
PRODUCTS = frozenset(("Conv", "Gemm", "MatMul"))


@dataclass(frozen=True)
class Lowered:
    """The graph; what was left out; and the axes by which an image of the file becomes one of the network."""

    graph: Graph
    notes: tuple[str, ...]
    layout: tuple[int, ...]
    shape: tuple[int, ...]  # of the network's input, without the batch
    output: str  # the tensor that the file's output is: before what was left out at the end
    tensors: dict[str, tuple[Feature, ...]]  # by which values of the file each can be told
    whole: frozenset[str]  # those that are whole numbers times a unit


def lower(model: OnnxModel) -> Lowered:
    """Raises ImportRefused for the first node that cannot be held."""
    return _Lowering(model).run()


class _Lowering:
    def __init__(self, model: OnnxModel) -> None:
        self.model = model
        self.notes: list[str] = []
        self.output = model.output
        self.nodes = self._without_end(rewritten(model))
        self.writer = Writer(model.shape[0] or 1)
        self.known: dict[str, Feature | Array | None] = {"": None, **model.constants}
        self.readers: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for name in node.inputs:
                self.readers[name].append(node)

    def _without_end(self, nodes: Sequence[Node]) -> list[Node]:
        kept = list(nodes)
        while kept and _only_ends(kept[-1]) and self.output in kept[-1].outputs:
            node = kept.pop()
            self.output = node.inputs[0]
            self.notes.append(f"{node.label} at the end is left out: {LEFT_OUT_AT_THE_END[node.op]}")
        return kept

    def run(self) -> Lowered:
        shape = tuple(dim or 1 for dim in self.model.shape[1:])
        layout = self._layout(shape)
        dims = dims_of(Node("the input", self.model.input, (), (self.model.input,)), [shape[k] for k in layout])
        start = Value(*dims)
        numbers = np.arange(start.size).reshape([shape[k] for k in layout]).transpose(np.argsort(layout))
        self.known[self.model.input] = Feature(shape, start, elements=numbers)
        for node in self.nodes:
            self._lower(node)
        last = self.nodes[-1] if self.nodes else Node("the output", "", (), ("",))
        found = self.known.get(self.output)
        if not isinstance(found, Feature):
            raise ImportRefused(None, "its output does not depend on its input")
        settled = self._in_file_order(found)
        plain = self.writer.plain(last, settled)
        output = plain.value
        if output is start:
            output = self.writer.pointwise(last, start, Epilogue())
        features = {name: feature for name, feature in self.known.items() if isinstance(feature, Feature)}
        counted = {feature.value for feature in features.values() if feature.domain.is_whole}
        graph = fold(Graph(start, output, tuple(self.writer.operators)), counted)
        tensors = {name: tuple(self.writer.forms(feature)) for name, feature in features.items()}
        if settled is not found:
            plain = replace(plain, shape=found.shape, elements=found.numbers())
        tensors[self.output] = (replace(plain, value=output),)
        whole = frozenset(name for name, feature in features.items() if feature.domain.is_whole)
        return Lowered(graph, tuple(self.notes), layout, shape, self.output, tensors, whole)

    def _in_file_order(self, found: Feature) -> Feature:
        """The output as the file gives it: scores are a row, maps come channel by channel."""
        if found.is_open:
            return found
        turned = found.numbers().transpose(found.order)
        if not is_in_order(turned.ravel(), found.value.size):
            return found
        if not is_in_order(found.numbers().ravel(), found.value.size):
            self.notes.append("the output's axes come in the order channels, rows, columns")
        return replace(found, shape=turned.shape, elements=None)

    def _layout(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The order of the input's axes in a file: channels first, where all that reads more than single numbers takes
        the last axis for channels."""
        plain = tuple(range(len(shape)))
        last = len(shape)
        orders, channels = {self.model.input: plain}, set()
        for node in self.nodes:  # in an order in which they run
            for name in {*node.inputs} & {*orders}:
                order = orders[name]
                if node.op in ELEMENTWISE:
                    orders[node.outputs[0]] = order
                elif (
                    node.op == "Transpose"
                    and sorted(perm := node.get("perm", [])) == list(range(last + 1))
                    and not perm[0]
                ):
                    orders[node.outputs[0]] = tuple(order[axis - 1] for axis in perm[1:])
                elif node.op != "Shape":
                    channels.add(order[-1 if node.op in LAST else 0])
        turned = (last - 1, *plain[:-1])
        # With two axes the way there is the way back, and only what reads them can tell.
        begins_so = turned in orders.values() and (last > 2 or not channels)
        return turned if channels == {last - 1} or begins_so else plain

    def _lower(self, node: Node) -> None:
        operands: list[Any] = [self.known[name] for name in node.inputs]
        if node.op == "Shape" and isinstance(operands[0], Feature):
            shape = np.array([self.writer.batch, *operands[0].shape], np.int64)
            made: Any = [shape[node.get("start", 0) : node.get("end", 99)]]
        elif not any(isinstance(it, Feature) for it in operands):
            made = evaluate(node, operands)
        else:
            made = self._feature(node, operands)
        if len(made) < len([name for name in node.outputs if name]):
            raise ImportRefused(node, f"it gives {len(node.outputs)} tensors")
        self.known.update(zip(node.outputs, made, strict=False))

    def _feature(self, node: Node, operands: list[Any]) -> list[Feature]:
        if node.op not in RULES:
            raise ImportRefused(node, f"{node.op[:40]} has no words in a .ftbnn file (docs/exchange.md lists what has)")
        windows = any(isinstance(it, Feature) and it.columns is not None for it in operands)
        if windows and node.op not in ELEMENTWISE | {"MatMul"}:
            raise ImportRefused(node, "it reads the windows of an Im2Col; only a MatMul with constant weights can")
        try:
            found = RULES[node.op](Call(node, tuple(operands), self.writer))
        except ImportRefused:
            raise
        except (TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, OverflowError) as error:
            raise ImportRefused(node, f"its inputs or attributes do not fit ({type(error).__name__})") from error
        several = found if isinstance(found, list) else [found]
        return [self._ready(node, name, it) for name, it in zip(node.outputs, several, strict=False)]

    def _ready(self, node: Node, name: str, feature: Feature) -> Feature:
        """Carried out here where somebody reads its numbers: others then read thresholds on the same value."""
        if not feature.functions or feature.is_open:
            return feature
        for reader in self.readers[name]:
            others = [it for it in reader.inputs if it != name and isinstance(self.known.get(it), np.ndarray)]
            is_alone = len(others) == len(reader.inputs) - 1 and len(reader.inputs) > 1
            reads = reader.op in READ_NUMBERS and not is_alone
            if reads or (reader.op in PRODUCTS and not feature.cut):
                return self.writer.grounded(node, feature, keep_units=True)
        return feature


def _only_ends(node: Node) -> bool:
    """Whether it tells no more of scores than which are the largest."""
    if node.op not in LEFT_OUT_AT_THE_END or LEFT_OUT_AT_THE_END[node.op] is SHARES:
        return node.op in LEFT_OUT_AT_THE_END
    axis = node.get("axis", 0 if node.op == "ArgMax" else -1)
    return axis in (-1, 1) and bool(node.get("largest", 1)) and not node.get("select_last_index", 0)


def rewritten(model: OnnxModel) -> list[Node]:
    """Several nodes that are one function as one: x * Sigmoid(x), and Relu(x) * right + Relu(-x) * -left."""
    nodes = list(model.nodes)
    writer = {name: node for node in nodes for name in node.outputs}
    constants = set(model.constants)
    negated: dict[str, str] = {}

    def scaled_relu(name: str) -> tuple[str, str] | None:
        """(what the Relu reads, the factor) of a product of both."""
        node = writer.get(name)
        if node is None or node.op != "Mul":
            return None
        for x, factor in (node.inputs, node.inputs[::-1]):
            relu = writer.get(x)
            if factor in constants and relu is not None and relu.op == "Relu":
                return relu.inputs[0], factor
        return None

    made = []
    for node in nodes:
        new = node
        if node.op == "Mul" and len(node.inputs) == 2:
            for x, y in (node.inputs, node.inputs[::-1]):
                curve = writer.get(y)
                if curve is not None and curve.op == "Sigmoid" and curve.inputs[0] == x:
                    new = replace(node, op="Silu", inputs=(x,))
        if node.op == "Add" and len(node.inputs) == 2:
            halves = [scaled_relu(name) for name in node.inputs]
            for first, second in (halves, halves[::-1]):
                if first is None or second is None:
                    continue
                turned = writer.get(second[0])
                if turned is not None and turned.op == "Neg" and turned.inputs[0] == first[0]:
                    negated[second[1]] = f"{second[1]} negated"
                    new = replace(node, op="FPReLU", inputs=(first[0], negated[second[1]], first[1]))
        made.append(new)
    for name, other in negated.items():
        model.constants[other] = -model.constants[name]
    return needed(made, model.output)


def needed(nodes: Sequence[Node], output: str) -> list[Node]:
    """Without those whose results nobody reads on the way to the output."""
    wanted, kept = {output}, []
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    return kept[::-1]
