"""A network's forward as the operators that ran: what counting and exporting both read.

Operators are seen where PyTorch dispatches them, so it does not matter how a forward is written: with nn modules, with
functions, with plain arithmetic, or in another file.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ftbnn.nn.backend import use_backend
from ftbnn.nn.layer import Layer

# What people write for what PyTorch dispatches.
SPOKEN = {
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_native_batch_norm_legit_no_training": "batch_norm",
    "_prelu_kernel": "prelu",
    "_unsafe_view": "flatten",
    "addmm": "linear",
    "convolution": "conv2d",
    "max_pool2d_with_indices": "max_pool2d",
    "mm": "linear",
    "native_batch_norm": "batch_norm",
    "native_dropout": "dropout",
    "view": "flatten",
}

Shapes = Callable[[str, Any], Any]  # an operator's result from its name and arguments, or None


def tensors_in(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from tensors_in(item)
    elif isinstance(tree, dict):
        yield from tensors_in(list(tree.values()))


def map_tensors(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """The same lists, tuples and dicts with other tensors."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, list | tuple):
        return type(tree)(map_tensors(item, change) for item in tree)
    return {key: map_tensors(item, change) for key, item in tree.items()} if isinstance(tree, dict) else tree


@dataclass(frozen=True, eq=False)
class Place:
    """Where an operator ran: the innermost module, or the outermost Layer around it, which speaks for its parts."""

    path: str
    module: nn.Module

    def label(self, name: str) -> str:
        """The layer's path; what is written in the forward of a module with children has its own name there."""
        is_layer = isinstance(self.module, Layer) or next(self.module.children(), None) is None
        return self.path if is_layer else f"{self.path}:{name}"


@dataclass(frozen=True, eq=False)
class Call:
    """One operator that ran. `name` is the dispatcher's, PyTorch's own without "aten::", in-place ones without their
    underscore."""

    name: str
    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    place: Place
    is_in_place: bool
    depends: bool  # on the network's input: what does not is a constant

    @property
    def spoken(self) -> str:
        """The operator's name as people write it."""
        return SPOKEN.get(self.name) or self.name.removeprefix("ftbnn::").lstrip("_").removeprefix("native_")

    @property
    def label(self) -> str:
        return self.place.label(self.spoken)


class Recorder(TorchDispatchMode):
    """Writes down every operator. `shapes` may answer for PyTorch where results have no numbers."""

    def __init__(self, network: nn.Module, *inputs: Tensor, shapes: Shapes | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self.shapes = shapes
        self._frames: list[Place] = [Place("", network)]
        self._dependent = {id(tensor): tensor for tensor in inputs}  # the tensors too: an id lives as long as they do

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Asked by torch: True, the default, would load its compiler (1 s) only to switch it off here."""
        return False

    @property
    def place(self) -> Place:
        return next((frame for frame in self._frames if isinstance(frame.module, Layer)), self._frames[-1])

    def depends(self, tree: Any) -> bool:
        return any(id(tensor) in self._dependent for tensor in tensors_in(tree))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written = func._schema.name.removeprefix("aten::")
        result = None if self.shapes is None else self.shapes(written, args)
        if result is None:
            result = func(*args, **kwargs)
        depends = self.depends(args) or self.depends(kwargs)
        if depends:
            self._dependent |= {id(tensor): tensor for tensor in tensors_in(result)}
        is_in_place = func._schema.is_mutable and written.endswith("_")
        name = written.removesuffix("_") if is_in_place else written
        self.calls.append(Call(name, func, tuple(args), kwargs, result, self.place, is_in_place, depends))
        return result

    @contextmanager
    def watching(self, network: nn.Module) -> Iterator["Recorder"]:
        """Hooks on every submodule, and evaluation mode, for the time of one forward pass."""
        handles = []
        for path, module in network.named_modules():

            def enter(module: nn.Module, _: Any, path: str = path) -> None:
                self._frames.append(Place(path, module))

            handles.append(module.register_forward_pre_hook(enter))
            handles.append(module.register_forward_hook(lambda *_: self._frames.pop() and None))
        try:
            with evaluating(network), use_backend("torch"), warnings.catch_warnings(), self:
                warnings.simplefilter("ignore")  # of the network's own forward, which has been run before
                yield self
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients; afterwards every part is in the mode it was in."""
    training = {child: child.training for child in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for child, was_training in training.items():
            child.training = was_training
