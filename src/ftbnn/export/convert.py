"""Traced calls to operators, one by one: unfused, in the order of the trace."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

from ftbnn.export import arithmetic, convolutions, pools
from ftbnn.export.call import Call
from ftbnn.export.graph import Graph, Operator, Pointwise, Value
from ftbnn.export.moves import MOVES, Feature, Moves
from ftbnn.export.trace import ExportError, call_name, first_line
from ftbnn.nn import BConv, FPReLU, Sign, sign

LAYERS: dict[type[nn.Module], Callable[..., Feature]] = {
    BConv: convolutions.bconv_layer,
    FPReLU: arithmetic.fprelu_layer,
    Sign: convolutions.sign_layer,
}
# By name: torch.relu, F.relu, x.relu() and operator.add, torch.add, x.add() are the same to us.
FUNCTIONS: dict[str, Callable[..., Feature]] = {
    "adaptive_avg_pool2d": pools.adaptive_avg_pool2d,
    "add": arithmetic.add,
    "avg_pool2d": pools.avg_pool2d,
    "batch_norm": arithmetic.batch_norm,
    "conv2d": convolutions.conv2d,
    "div": arithmetic.div,
    "dropout": arithmetic.dropout,
    "dropout1d": arithmetic.dropout,
    "dropout2d": arithmetic.dropout,
    "leaky_relu": arithmetic.leaky_relu,
    "linear": convolutions.linear,
    "max_pool2d": pools.max_pool2d,
    "mean": pools.mean,
    "mul": arithmetic.mul,
    "neg": arithmetic.neg,
    "pad": convolutions.pad,
    "prelu": arithmetic.prelu,
    "relu": arithmetic.relu,
    "sub": arithmetic.sub,
}
_ALSO = {
    "iadd": "add_",
    "imul": "mul_",
    "isub": "sub_",
    "itruediv": "div_",
    "multiply": "mul",
    "subtract": "sub",
    "truediv": "div",
    "true_divide": "div",
}
# Give the same numbers; a change of type is refused where it rounds.
_SAME = frozenset("alias clone contiguous cpu cuda data detach double float to type type_as".split())


class _Converter:
    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self.operators: list[Operator] = []
        self.moves = Moves(self.emit)
        self.features: dict[fx.Node, Any] = {}

    def emit(self, operator: Operator) -> Value:
        self.operators.append(operator)
        return operator.output

    def convert(self, graph: fx.Graph) -> Graph:
        *calls, end = graph.nodes
        start = self.start(calls[0])
        for node in calls[1:]:
            self.features[node] = self.call(node)
        result = self.lookup(end.args[0])
        if not isinstance(result, Feature):
            raise ExportError("", "it must return one tensor that depends on the input")
        output = Call(self, "the output", result.shape).read(result)
        if output is start:
            output = self.emit(Pointwise("", (start,), Value(start.channels, start.height, start.width)))
        return Graph(start, output, tuple(self.operators))

    def start(self, node: fx.Node) -> Value:
        shape = node.meta["shape"]
        value = Value(*shape[1:])
        self.features[node] = Feature("the input", shape, value)
        return value

    def lookup(self, args: Any) -> Any:
        return fx.node.map_aggregate(args, lambda leaf: self.features[leaf] if isinstance(leaf, fx.Node) else leaf)

    def call(self, node: fx.Node) -> Any:
        call = Call(self, node.meta["path"], node.meta["shape"])
        args, kwargs = self.lookup(node.args), self.lookup(node.kwargs)
        if node.op == "call_module":
            layer = self.root.get_submodule(str(node.target))
            rule = next(rule for kind, rule in LAYERS.items() if isinstance(layer, kind))
            return rule(call, layer, *args, **kwargs)
        if node.target is sign:
            return convolutions.sign(call, *args, **kwargs)
        written = args[1] if node.target is getattr else call_name(node.target)
        written = _ALSO.get(written, written)
        name = written.removesuffix("_")
        in_place = name != written
        if name in MOVES:
            result = self.move(node, name, args, kwargs)
        elif name in _SAME and isinstance(args[0], Feature):
            if node.meta["dtype"] not in (torch.float32, torch.float64):
                raise call.error(f"rounds to {node.meta['dtype']}; networks are exported in float32")
            result = args[0]
        else:
            if name not in FUNCTIONS:
                raise call.error(f"{name} is not among the functions that can be exported")
            try:
                bound = inspect.signature(FUNCTIONS[name]).bind(call, *args, **kwargs)
            except TypeError as error:
                raise call.error(f"{name} has an argument that is not supported: {first_line(error)}") from error
            in_place |= bool(bound.arguments.get("inplace"))
            result = FUNCTIONS[name](*bound.args, **bound.kwargs)
        if in_place:
            self.overwrite(args[0], result)
        return result

    def move(self, node: fx.Node, name: str, args: Any, kwargs: Any) -> Any:
        """Runs on the numbers of the elements in place of the elements."""
        features: list[Feature] = []

        def number(leaf: Any) -> Any:
            if isinstance(leaf, Feature):
                features.append(leaf)
                return self.moves.numbers(leaf)
            if isinstance(leaf, Tensor) and leaf.is_floating_point():
                raise ExportError(node.meta["path"], "joins constants to the network's values")
            return leaf.cpu() if isinstance(leaf, Tensor) else leaf

        if name == "getitem" and isinstance(args[0], tuple):  # one of several results
            return args[0][args[1]]
        args, kwargs = fx.node.map_aggregate(args, number), fx.node.map_aggregate(kwargs, number)
        function: Any = getattr(Tensor, name) if node.op == "call_method" else node.target
        return self.moves.apply(node.meta["path"], function, args, kwargs, features)

    def overwrite(self, old: Any, new: Feature) -> None:
        """After an in-place call every name of the old tensor means the new one."""
        for node, feature in self.features.items():
            if feature is old:
                self.features[node] = new


def convert(graph: fx.Graph, root: nn.Module) -> Graph:
    """The operators of a traced module, before folding."""
    return _Converter(root).convert(graph)
