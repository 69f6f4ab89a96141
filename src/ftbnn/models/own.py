"""A user's own network by name: `FILE.py:FACTORY` or `package.module:FACTORY`.

The factory is a class or function that returns an nn.Module; of our settings it is given those it has a parameter for.
"""

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from torch import nn

from ftbnn.errors import UserError, first_line, unknown
from ftbnn.zoo import card, name_in


def is_own(name: str) -> bool:
    return ":" in name or name.endswith(".py")


def _parts(name: str) -> tuple[str, str]:
    """File or module, and factory."""
    source, colon, factory = name.rpartition(":")
    return (source, factory) if colon else (name, "")


def resolved(name: str) -> str:
    """The name with its file's path in full, as it is to be kept: it means the same in any directory."""
    source, factory = _parts(name)
    return f"{Path(source).resolve()}:{factory}" if source.endswith(".py") else name


def lost_file(name: str) -> Path | None:
    """The file of FILE.py:FACTORY where it is not there any more."""
    source, _ = _parts(name)
    return Path(source) if source.endswith(".py") and not Path(source).exists() else None


def _import_source(source: str) -> ModuleType:
    path = Path(source)
    home = str(path.resolve().parent if source.endswith(".py") else Path.cwd())
    if home not in sys.path:
        sys.path.insert(0, home)  # as `python FILE.py` has it: the file may import what lies beside it
    try:
        if not source.endswith(".py"):
            return importlib.import_module(source)
        return _execute(path.resolve(), path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror or error}") from error
    except Exception as error:
        raise UserError(f"cannot import {source}: {type(error).__name__}: {first_line(error)}") from error


@functools.cache
def _execute(path: Path, _: bytes) -> ModuleType:
    """The module of a file with these contents: executed once, however often its networks are built."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _factory(name: str) -> Callable[..., object]:
    if (trained := name_in(name)) is not None:
        network = card(trained)["model"]
        raise UserError(
            f"{name} is a trained file, not a network to build: that is {network}. predict, eval and inspect take it, "
            f"train starts from it as init; in Python load, evaluate and build({network!r}, pretrained={trained!r})"
        )
    source, factory_name = _parts(name)
    if not factory_name:
        raise UserError(f"say which class or function of {source} makes the network: {source}:FACTORY")
    module = _import_source(source)
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown(f"factory in {source}", factory_name, names or ["(none found)"])
    return factory  # type: ignore[no-any-return]


def parameters_of(name: str) -> tuple[str, ...]:
    """The names of what the factory takes."""
    return tuple(inspect.signature(_factory(name)).parameters)


def load_own(name: str, **settings: object) -> nn.Module:
    """Imports the file or module and calls the factory. None among the settings means: leave it to the factory."""
    factory = _factory(name)
    parameters = inspect.signature(factory).parameters
    given = {key: value for key, value in settings.items() if value is not None}
    for key in given:
        if key not in parameters:
            raise UserError(f"{name} has no parameter {key!r}; it takes {', '.join(parameters) or 'none'}")
    try:
        network = factory(**given)
    except Exception as error:
        raise UserError(f"{name} could not be built: {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(network, nn.Module):
        raise UserError(f"{name} returned {type(network).__name__}, not an nn.Module")
    return network
