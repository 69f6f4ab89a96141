"""A module's forward as a list of calls: torch.fx's tracing, with an example running beside it.

The example makes every size a plain number, so `x.view(x.size(0), -1)` and conditions on shapes trace like the rest;
only what looks at the numbers inside a tensor cannot. PyTorch's own modules are traced through to their functions.
"""

import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn

from ftbnn.errors import UserError
from ftbnn.nn import BConv, FPReLU, Sign, sign

BATCH = 2  # two images at once, so that a forward that mixes the images of a batch does not go unnoticed
_LAYERS = (BConv, FPReLU, Sign)
_LEAVES = tuple(layer.forward for layer in _LAYERS)
_READS_NO_NUMBERS = frozenset(
    "size dim ndimension numel nelement stride is_contiguous is_floating_point is_complex element_size get_device "
    "type len".split()
)


class ExportError(UserError):
    """A part of a network that a file cannot hold, by its layer path, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot export {path or 'the network'}: {reason}")


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def is_leaf(module: nn.Module) -> bool:
    """One of our layers, or a subclass that keeps its forward."""
    return isinstance(module, _LAYERS) and type(module).forward in _LEAVES


class _Proxy(fx.Proxy):
    """A traced tensor that knows its example: what depends on the shape alone is answered at once."""

    def __init__(self, node: fx.Node, tracer: "_Tracer", example: Any) -> None:
        super().__init__(node, tracer)
        self.example = example

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.example, name)
        if isinstance(found, Tensor):
            return self.tracer.create_proxy("call_function", getattr, (self, name), {})
        return fx.proxy.Attribute(self, name) if callable(found) else found

    def __len__(self) -> int:
        return len(self.example)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self.example)))  # type: ignore[index]

    def __bool__(self) -> bool:
        raise ExportError(self.tracer.path, "its forward decides by the numbers inside a tensor")  # type: ignore[attr-defined]


def _recorded(function: Callable[..., Any]) -> Callable[[_Proxy, Any], Any]:
    return lambda self, other: self.tracer.create_proxy("call_function", function, (self, other), {})


for _function in (operator.iadd, operator.isub, operator.imul, operator.itruediv):  # fx would take x += y for x = x + y
    setattr(_Proxy, f"__{_function.__name__}__", _recorded(_function))


class _Tracer(fx.Tracer):
    """Records each call with the layer it happened in and the shape it gave."""

    def __init__(self, example: Tensor) -> None:
        super().__init__(autowrap_functions=(sign,))
        self.example = example
        self.modules: list[tuple[str, nn.Module]] = []
        self.is_running = False

    @property
    def path(self) -> str:
        return self.modules[-1][0] if self.modules else ""

    def label(self, kind: str, target: Any) -> str:
        """The layer's path; what is written in the forward of a module with children has its own name there."""
        owner = self.modules[-1][1] if self.modules else self.root
        if self.path and (kind == "call_module" or next(owner.children(), None) is None):
            return self.path
        return f"{self.path}:{call_name(target)}".lstrip(":")

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:  # noqa: ARG002
        """One tensor; further parameters of forward keep their defaults."""
        return root_fn, [self.root, self.create_proxy("placeholder", "x", (), {})]

    def create_arg(self, a: Any) -> Any:
        return a if isinstance(a, Tensor) else super().create_arg(a)  # fx would write constants into the module

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: Any) -> Any:  # noqa: ARG002
        return attr_val  # a parameter is a constant here

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002
        return is_leaf(m)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self.is_running:
            return forward(*args, **kwargs)
        self.modules.append((self.path_of_module(m), m))
        result = super().call_module(m, forward, args, kwargs)
        self.modules.pop()
        return result

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **more: Any) -> Any:
        example = self.example if kind == "placeholder" else self._run(kind, target, args, kwargs)
        if not isinstance(example, Tensor | tuple | list) or isinstance(example, torch.Size):
            if call_name(target) in _READS_NO_NUMBERS:
                return example
            raise ExportError(self.path, f"its forward takes numbers out of a tensor ({call_name(target)})")
        node = super().create_proxy(kind, target, args, kwargs, *rest, **more).node
        node.meta["path"] = self.label(kind, target)
        node.meta["shape"] = tuple(example.shape) if isinstance(example, Tensor) else None
        node.meta["dtype"] = example.dtype if isinstance(example, Tensor) else None
        return _Proxy(node, self, example)

    def _run(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        def example(leaf: Any) -> Any:
            return leaf.example if isinstance(leaf, _Proxy) else leaf

        args, kwargs = fx.node.map_aggregate(args, example), fx.node.map_aggregate(kwargs, example)
        self.is_running = True
        try:
            if kind == "call_method":
                return getattr(args[0], target)(*args[1:], **kwargs)
            function = self.root.get_submodule(target) if kind == "call_module" else target
            return function(*args, **kwargs)
        except Exception as error:
            shape = "x".join(map(str, self.example.shape[1:]))
            reason = f"does not run on an input of {shape}: {first_line(error)}"
            raise ExportError(self.label(kind, target), reason) from error
        finally:
            self.is_running = False


def call_name(target: Any) -> str:
    """The name of a function, method or layer."""
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


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


def trace(module: nn.Module, example_input: Tensor) -> tuple[fx.Graph, nn.Module]:
    """The calls of `module` on an input like `example_input`, (N, channels, height, width), and the module they name.

    Each node's meta has `path`, `shape` and `dtype`. Tensors among the arguments are the module's own.
    """
    if example_input.dim() != 4 or example_input.dtype not in (torch.float32, torch.float64):
        shape = "x".join(map(str, example_input.shape))
        raise UserError(
            f"the example input must be a float32 batch of images (N, channels, height, width), "
            f"not {example_input.dtype} {shape}"
        )
    root = nn.Sequential(module) if is_leaf(module) else module
    tracer = _Tracer(example_input[:1].detach().repeat(BATCH, 1, 1, 1))
    with evaluating(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's own forward, which has been run before
        try:
            return tracer.trace(root), root
        except UserError:
            raise
        except Exception as error:
            raise ExportError(tracer.path, f"cannot be traced: {first_line(error)}") from error
