"""1-bit convolutional networks: layers, networks, budgets, training and a native engine.

    build     a network by name                     export    a run or a network as one small file
    summary   its layers, bits and cost             load      that file as a function of images; needs no PyTorch
    fit       trains any network                    evaluate  accuracy of any of these
    load_run  what a training left                  data      data sets by name
    export_c  a run, a network or a file as plain C

Importing this package loads neither PyTorch nor NumPy: each name imports what it needs when it is first asked for.
"""

import sys as _sys
from importlib import import_module as _import
from importlib import metadata as _metadata
from typing import TYPE_CHECKING, Any

from ftbnn import errors as _errors

if TYPE_CHECKING:
    from ftbnn import nn
    from ftbnn.budget import summary
    from ftbnn.budget.count import count
    from ftbnn.errors import UserError
    from ftbnn.runtime import FormatError, Model, load
    from ftbnn.training import Options, Recipe, load_run
    from ftbnn.training.fit import fit
    from ftbnn.workflows.deploy import evaluate, export
    from ftbnn.workflows.networks import build
    from ftbnn.workflows.plain_c import export_c

_HOMES = {
    "FormatError": "runtime",
    "Model": "runtime",
    "Options": "training",
    "Recipe": "training",
    "UserError": "errors",
    "build": "workflows.networks",
    "count": "budget",
    "evaluate": "workflows.deploy",
    "export": "workflows.deploy",
    "export_c": "workflows.plain_c",
    "fit": "training",
    "load": "runtime",
    "load_run": "training",
    "summary": "budget",
}
_PACKAGES = frozenset({"budget", "data", "models", "nn", "packing", "runtime", "training", "zoo"})
_LIGHT = frozenset(
    {"FormatError", "Model", "UserError", "__version__", "export_c", "load", "packing", "runtime", "zoo"}
)
_NEED_TORCH = {*_HOMES, *_PACKAGES} - _LIGHT
_PARTS = {"exchange.brevitas", "packing.export", "packing.onnx", "packing.verify"}  # need it, their packages do not
_IMPORTS_WITH_TORCH = {f"ftbnn.{name}" for name in _NEED_TORCH | _PARTS}

__all__ = [
    "FormatError",
    "Model",
    "Options",
    "Recipe",
    "UserError",
    "__version__",
    "build",
    "count",
    "evaluate",
    "export",
    "export_c",
    "fit",
    "load",
    "load_run",
    "nn",
    "summary",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _metadata.version("ftbnn")
    if name in _NEED_TORCH and not _errors.has_torch():
        raise _errors.lacks_torch(f"ftbnn.{name}", _errors.NoName)
    if name in _PACKAGES:
        return _import(f"ftbnn.{name}")
    if name in _HOMES:
        return getattr(_import(f"ftbnn.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'ftbnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    names = {*_HOMES, *_PACKAGES, "__version__"}
    return sorted({*globals(), *(names if _errors.has_torch() else names & _LIGHT)})


class _WithoutTorch:
    """Finds no module, but says of ours what they need: of `import ftbnn.nn`, and of `from ftbnn import fit`, which
    looks for a module once `hasattr` has said no."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name in _IMPORTS_WITH_TORCH and not _errors.has_torch():
            raise _errors.lacks_torch(name, _errors.NoModule)


if not _errors.has_torch():
    _sys.meta_path.insert(0, _WithoutTorch)
    __all__[:] = [name for name in __all__ if name in _LIGHT]  # what `from ftbnn import *` can have
