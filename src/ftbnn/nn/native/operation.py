"""Operators with a native forward and backward: one description each, from which PyTorch learns all it wants to know.

A description names its tensors, its settings and its results, says how large results and gradients are, and computes
both in plain PyTorch. From that come the schema, the shape function, the gradient, the plain registration and the
native one, which hands the core (address, size) of each tensor by its name.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, get_type_hints

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ftbnn.nn import operators
from ftbnn.nn.native.core import arrays, channels_last, core, empty, has_channels_last, share_threads

Tensors = dict[str, Any]  # by name; None for one that is absent

_SCHEMA = {int: "int", bool: "bool", float: "float", str: "str", tuple[int, ...]: "int[]", tuple[float, ...]: "float[]"}


class Room(NamedTuple):
    """A tensor to be written: dense, maps with their channels last."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    is_map: bool = False

    def on(self, device: torch.device) -> Tensor:
        layout = torch.channels_last if self.is_map else torch.contiguous_format
        return torch.empty(self.shape, dtype=self.dtype, device=device, memory_format=layout)

    def natively(self) -> Tensor:
        return empty(self.shape, self.dtype, channels_last=self.is_map)


NOTHING = Room((0,))


def map_room(*shape: int) -> Room:
    return Room(shape, is_map=True)


class Operation(ABC):
    """`required` and `optional` are its inputs, `learned` those that get gradients; `kept` are the inputs and results
    that backward is given. The first of `results` is the output, the others are for backward and for us."""

    name: ClassVar[str]
    required: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]]
    learned: ClassVar[tuple[str, ...]]
    results: ClassVar[tuple[str, ...]]
    kept: ClassVar[tuple[str, ...]]
    settings: ClassVar[Any]  # a NamedTuple
    maps: ClassVar[tuple[str, ...]] = ("x", "shortcut", "out", "grad")  # of those given, which have their channels last
    either: ClassVar[tuple[str, ...]] = ()  # and which may have them last or not

    @abstractmethod
    def rooms(self, given: Tensors, settings: Any) -> dict[str, Room]:
        """Of each result; NOTHING for one that is not needed."""

    @abstractmethod
    def gradient_rooms(self, given: Tensors, settings: Any, wanted: set[str]) -> dict[str, Room]:
        """Of each gradient that must be made for those that are wanted. `given` has `grad` and what was kept."""

    @abstractmethod
    def keep(self, given: Tensors, settings: Any) -> set[str]:
        """Which of `kept` backward needs, given inputs and results."""

    @abstractmethod
    def plain(self, given: Tensors, settings: Any) -> Tensors: ...

    @abstractmethod
    def plain_backward(self, given: Tensors, settings: Any, wanted: set[str]) -> Tensors: ...

    @abstractmethod
    def native(self, given: Tensors, settings: Any) -> Any:
        """The core's object for these sizes, with forward and backward."""

    def heard(self, way: str, given: Tensors, seconds: Any) -> None:  # noqa: B027 - most have nobody who listens
        """What the core says after its work; `given` has the tensors that it read and wrote."""

    def __init__(self) -> None:
        self.inputs = (*self.required, *self.optional)
        self.function = _function(self)
        hints = get_type_hints(self.settings)
        told = [f"{_SCHEMA[hints[field]]} {field}" for field in self.settings._fields]
        inputs = [*(f"Tensor {name}" for name in self.required), *(f"Tensor? {name}" for name in self.optional)]
        results = ", ".join(f"Tensor {name}" for name in self.results)
        self.operator = operators.define(
            f"{self.name}({', '.join([*inputs, *told])}) -> ({results})",
            plain=self._plain,
            fake=self._fake,
            gradient=self.function.apply,
        )
        kept = ["Tensor grad", *(f"Tensor? {name}" for name in self.kept), "bool[] wanted"]
        self.backward_operator = operators.define(
            f"{self.name}_backward({', '.join([*kept, *told])}) -> Tensor[]",
            plain=self._plain_backward,
            fake=self._fake_backward,
        )
        if core is not None:
            operators.implement(self.name, self._native, "CPU")
            operators.implement(f"{self.name}_backward", self._native_backward, "CPU")

    def run(self, given: Mapping[str, Tensor | None], settings: Any) -> Tensors:
        """The results, by name."""
        compute = self.operator if torch.compiler.is_compiling() else self.function.apply
        return dict(zip(self.results, compute(*(given.get(name) for name in self.inputs), *settings), strict=True))

    def forward_arguments(self, args: Sequence[Any]) -> tuple[Tensors, Any]:
        count = len(self.inputs)
        return dict(zip(self.inputs, args[:count], strict=True)), self.settings(*args[count:])

    def _plain(self, *args: Any) -> tuple[Tensor, ...]:
        made = self.plain(*self.forward_arguments(args))
        return tuple(made[name] for name in self.results)

    def _fake(self, *args: Any) -> tuple[Tensor, ...]:
        rooms = self.rooms(*self.forward_arguments(args))
        return tuple(rooms[name].on(args[0].device) for name in self.results)

    def _native(self, *args: Any) -> tuple[Tensor, ...]:
        given, settings = self.forward_arguments(args)
        given = self._dense(given)
        rooms = self.rooms(given, settings)
        made = {name: rooms[name].natively() for name in self.results}
        self._call("forward", given, made, settings)
        return tuple(made.values())

    def backward_arguments(self, args: Sequence[Any]) -> tuple[Tensors, Any, set[str]]:
        count = len(self.kept) + 1
        wanted = {name for name, want in zip(self.learned, args[count], strict=True) if want}
        return dict(zip(("grad", *self.kept), args[:count], strict=True)), self.settings(*args[count + 1 :]), wanted

    def _plain_backward(self, *args: Any) -> list[Tensor]:
        found = self.plain_backward(*self.backward_arguments(args))
        return [found[name] if name in found else NOTHING.on(args[0].device) for name in self.learned]

    def _fake_backward(self, *args: Any) -> list[Tensor]:
        rooms = self.gradient_rooms(*self.backward_arguments(args))
        return [rooms.get(name, NOTHING).on(args[0].device) for name in self.learned]

    def _native_backward(self, *args: Any) -> list[Tensor]:
        found = self._native_gradients(*args)
        return [found[name] if name in found else NOTHING.natively() for name in self.learned]

    def _native_gradients(self, *args: Any) -> Tensors:
        given, settings, wanted = self.backward_arguments(args)
        made = {name: room.natively() for name, room in self.gradient_rooms(given, settings, wanted).items()}
        self._call("backward", self._dense(given), {f"{name}_grad": tensor for name, tensor in made.items()}, settings)
        return made

    def _dense(self, given: Tensors) -> Tensors:
        """Maps with their channels last, everything else as it is counted."""
        dense = dict(given)
        for name, tensor in given.items():
            if tensor is None or (name in self.either and has_channels_last(tensor)):
                continue
            dense[name] = channels_last(tensor) if name in self.maps and tensor.dim() == 4 else tensor.contiguous()
        return dense

    def _call(self, way: str, given: Tensors, made: Tensors, settings: Any) -> None:
        share_threads()
        used = given | {name: tensor for name, tensor in made.items() if tensor.numel()}
        seconds = getattr(self.native(given, settings), way)(torch.get_num_threads(), arrays(used))
        self.heard(way, used, seconds)


def _function(operation: Operation) -> type[torch.autograd.Function]:
    """The operator's gradient. Called by a compiler or tracer it computes operators, else the core at once."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> tuple[Tensor, ...]:
            given, settings = operation.forward_arguments(args)
            made: tuple[Tensor, ...]
            if operators.is_seen():
                with operators.below_autograd():
                    made = operation.operator(*args)
            else:
                made = operation._native(*args)
            ctx.mark_non_differentiable(*made[1:])
            ctx.set_materialize_grads(False)
            if any(ctx.needs_input_grad):
                known = given | dict(zip(operation.results, made, strict=True))
                needed = operation.keep(known, settings)
                ctx.save_for_backward(*(known[name] if name in needed else None for name in operation.kept))
                ctx.settings = settings
            return made

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
            needs = dict(zip(operation.inputs, ctx.needs_input_grad, strict=False))
            nothing = [None] * len(ctx.needs_input_grad)
            if grads[0] is None:
                return tuple(nothing)
            wanted = [needs[name] for name in operation.learned]
            given = (grads[0], *ctx.saved_tensors, wanted, *ctx.settings)
            if operators.is_seen():
                gradients = dict(zip(operation.learned, operation.backward_operator(*given), strict=True))
            else:
                gradients = operation._native_gradients(*given)
            of_inputs = [gradients.get(name) if need else None for name, need in needs.items()]
            return (*of_inputs, *nothing[len(of_inputs) :])

    return type(operation.name, (Function,), {})  # whose node in the graph of gradients has this name, too
