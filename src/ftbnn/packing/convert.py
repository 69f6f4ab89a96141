"""A module's forward as operators of the file, one by one: unfused, in the order in which they ran."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError, first_line
from ftbnn.packing import arithmetic, convolutions, pools
from ftbnn.packing.graph import ExportError, Graph, NotInFormat, Operator, Pointwise, Value
from ftbnn.packing.moves import BATCH, MOVES, Feature, Moves
from ftbnn.packing.step import Step
from ftbnn.tracing import Call, Recorder, map_tensors

# By the name that PyTorch's dispatcher has for it: F.relu, nn.ReLU and x.relu_() are the same to us.
RULES: dict[str, Callable[[Step], Feature]] = {
    "_adaptive_avg_pool2d": pools.adaptive_avg_pool,
    "_native_batch_norm_legit_no_training": arithmetic.batch_norm,
    "_prelu_kernel": arithmetic.prelu,
    "abs": arithmetic.absolute,
    "add": arithmetic.add,
    "addmm": convolutions.addmm,
    "avg_pool2d": pools.avg_pool,
    "clamp": arithmetic.clamp,
    "clamp_max": arithmetic.clamp,
    "clamp_min": arithmetic.clamp,
    "constant_pad_nd": convolutions.pad,
    "convolution": convolutions.convolution,
    "div": arithmetic.div,
    "ftbnn::bconv": convolutions.bconv,
    "ftbnn::fprelu": arithmetic.fprelu,
    "ftbnn::sign": convolutions.sign,
    "ftbnn::steps": arithmetic.steps,
    "hardsigmoid": arithmetic.curve("hardsigmoid"),
    "hardswish": arithmetic.curve("hardswish"),
    "hardtanh": arithmetic.hardtanh,
    "leaky_relu": arithmetic.leaky_relu,
    "max_pool2d_with_indices": pools.max_pool,
    "mean": pools.mean,
    "mm": convolutions.mm,
    "mul": arithmetic.mul,
    "native_batch_norm": arithmetic.batch_norm,
    "neg": arithmetic.neg,
    "relu": arithmetic.relu,
    "rsub": arithmetic.rsub,
    "sigmoid": arithmetic.curve("sigmoid"),
    "silu": arithmetic.curve("silu"),
    "sub": arithmetic.sub,
    "tanh": arithmetic.curve("tanh"),
}
AT_THE_END = "at the end of a network leave it out, scores rank alike without it, and `Model.top` gives shares"
ADVICE = {"softmax": AT_THE_END, "log_softmax": AT_THE_END}
# Give the same numbers; a change of type is refused where it rounds.
_SAME = frozenset("_to_copy alias clone contiguous detach lift_fresh".split())


class _Converter:
    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.moves = Moves(self.write)
        self.features: dict[int, Any] = {}  # of tensors that depend on the input, by id
        self.changed: dict[int, str] = {}  # tensors that an in-place operator changed under another name, and where
        self.memory: dict[int, list[Tensor]] = {}  # tensors that share it
        self.rounded: dict[int, tuple[Tensor, int]] = {}  # weights by id: what was rounded, and to how many bits

    def write(self, operator: Operator) -> Value:
        self.operators.append(operator)
        return operator.output

    def start(self, x: Tensor) -> Value:
        value = Value(*x.shape[1:])
        self._know(x, Feature("the input", tuple(x.shape), value))
        return value

    def call(self, call: Call) -> None:
        if not call.depends:
            if call.name == "ftbnn::rounded":
                self.rounded[id(call.result)] = call.args[0], call.args[1]
            return
        path = _path(call)
        result = self._convert(path, call)
        if call.is_in_place:
            self._overwrite(call.args[0], result, path)
        elif isinstance(call.result, Tensor):
            self._know(call.result, result)
        else:  # of several results the first is meant, unless all were moved
            several = result if isinstance(result, tuple) else (result,)
            for tensor, feature in zip(call.result, several, strict=False):
                self._know(tensor, feature)

    def _convert(self, path: str, call: Call) -> Any:
        if call.name in MOVES:
            return self._move(path, call)
        arguments = {
            argument.name: map_tensors(self._argument(call, index, argument), lambda t: self.look_up(path, t))
            for index, argument in enumerate(call.operator._schema.arguments)
        }
        if call.name in _SAME:
            if call.result.dtype not in (torch.float32, torch.float64):
                raise ExportError(path, f"rounds to {call.result.dtype}; networks are exported in float32")
            return next(iter(arguments.values()))
        if call.name not in RULES:
            advice = f"; {ADVICE[call.spoken]}" if call.spoken in ADVICE else ""
            raise NotInFormat(path, f"{call.spoken} cannot be written into a .ftbnn file{advice}")
        first = call.result if isinstance(call.result, Tensor) else call.result[0]
        return RULES[call.name](Step(path, tuple(first.shape), arguments, self.moves, self.write, self.rounded))

    @staticmethod
    def _argument(call: Call, index: int, argument: Any) -> Any:
        if index < len(call.args):
            return call.args[index]
        return call.kwargs.get(argument.name, argument.default_value)

    def _move(self, path: str, call: Call) -> Any:
        """Runs on the numbers of the elements in place of the elements."""

        def run(numbers: Callable[[Feature], Tensor]) -> Any:
            def of(tensor: Tensor) -> Tensor:
                known = self.look_up(path, tensor)
                if isinstance(known, Feature):
                    return numbers(known)
                if tensor.is_floating_point():
                    raise NotInFormat(path, "joins constants to the network's values")
                return tensor.cpu()

            return call.operator(*map_tensors(call.args, of), **map_tensors(call.kwargs, of))

        return self.moves.apply(path, run)

    def look_up(self, path: str, tensor: Tensor) -> Any:
        """The feature of a tensor that depends on the input; a constant as it is."""
        if (where := self.changed.get(id(tensor))) is not None:
            raise ExportError(path, f"reads a tensor that {where} has changed in place through another view of it")
        return self.features.get(id(tensor), tensor)

    def _know(self, tensor: Tensor, feature: Any) -> None:
        self.features[id(tensor)] = feature
        self.memory.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)

    def _overwrite(self, tensor: Tensor, feature: Any, path: str) -> None:
        """After an in-place operator the tensor means the result, and views of the same memory are not to be read."""
        for other in self.memory.get(tensor.untyped_storage().data_ptr(), []):
            if other is not tensor:
                self.changed[id(other)] = path
        self._know(tensor, feature)


def _path(call: Call) -> str:
    return call.label.lstrip(":") or call.spoken


def _check(calls: Sequence[Call]) -> None:
    """What a list of operators cannot express."""
    for call in calls:
        if torch.Tag.nondeterministic_seeded in call.operator.tags:
            raise ExportError(_path(call), "draws random numbers in evaluation; a dropout wants training=self.training")
        if call.depends and call.name == "_local_scalar_dense":
            raise ExportError(call.place.path, "takes numbers out of a tensor; what is done must not depend on them")


def convert(module: nn.Module, example_input: Tensor) -> Graph:
    """The operators of `module` on images like `example_input`, (N, channels, height, width), before folding."""
    if example_input.dim() != 4 or example_input.dtype not in (torch.float32, torch.float64):
        shape = "x".join(map(str, example_input.shape))
        raise UserError(
            f"the example input must be a float32 batch of images (N, channels, height, width), "
            f"not {example_input.dtype} {shape}"
        )
    x = example_input[:1].detach().repeat(BATCH, 1, 1, 1)
    recorder = Recorder(module, x)
    try:
        with recorder.watching(module):
            result = module(x)
    except UserError:
        raise
    except Exception as error:
        place, size = recorder.place.path, "x".join(map(str, x.shape[1:]))
        raise ExportError(place, f"does not run on an input of {size}: {first_line(error)}") from error
    _check(recorder.calls)
    converter = _Converter()
    start = converter.start(x)
    for call in recorder.calls:
        converter.call(call)
    found = converter.look_up("the output", result) if isinstance(result, Tensor) else None
    if not isinstance(found, Feature):
        raise ExportError("", "it must return one tensor that depends on the input")
    output = Step("the output", found.shape, {}, converter.moves, converter.write).read(found)
    if output is start:
        output = converter.write(Pointwise("", (start,), Value(start.channels, start.height, start.width)))
    return Graph(start, output, tuple(converter.operators))
