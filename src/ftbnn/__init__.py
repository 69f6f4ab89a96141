"""1-bit convolutional networks: layers, networks, budgets, training and a native engine.

    build     a network by name                     export    a run or a network as one small file
    summary   its layers, bits and cost             load      that file as a function of images; needs no PyTorch
    fit       trains any network                    evaluate  accuracy of any of these
    load_run  what a training left                  data      data sets by name
    export_c  a run, a network or a file as plain C

Importing this package loads neither PyTorch nor NumPy: each name imports what it needs when it is first asked for.
"""

from importlib import import_module as _import
from importlib import metadata as _metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ftbnn import nn
    from ftbnn.budget import summary
    from ftbnn.budget.count import count
    from ftbnn.errors import UserError
    from ftbnn.runtime import Model, load
    from ftbnn.training import Options, Recipe, load_run
    from ftbnn.training.fit import fit
    from ftbnn.workflows.deploy import evaluate, export
    from ftbnn.workflows.networks import build
    from ftbnn.workflows.plain_c import export_c

_HOMES = {
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

__all__ = [
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
    try:
        if name in _PACKAGES:
            return _import(f"ftbnn.{name}")
        if name in _HOMES:
            return getattr(_import(f"ftbnn.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from ftbnn.errors import lacks_torch

        raise lacks_torch(f"ftbnn.{name}") from None
    raise AttributeError(f"module 'ftbnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
