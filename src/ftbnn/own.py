"""What a user has written, by name: `FILE.py:NAME` or `package.module:NAME`."""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ftbnn.errors import UserError, first_line, unknown


def is_own(name: str) -> bool:
    return ":" in name or name.endswith(".py")


def _parts(name: str) -> tuple[str, str]:
    """File or module, and what is in it."""
    source, colon, thing = name.rpartition(":")
    return (source, thing) if colon else (name, "")


def resolved(name: str) -> str:
    """The name with its file's path in full, as it is to be kept: it means the same in any directory."""
    source, thing = _parts(name)
    return f"{Path(source).resolve()}:{thing}" if source.endswith(".py") else name


def lost_file(name: str) -> Path | None:
    """The file of FILE.py:NAME where it is not there any more."""
    source, _ = _parts(name)
    return Path(source) if source.endswith(".py") and not Path(source).exists() else None


def find(name: str, what: str, fits: Callable[[object], bool]) -> Any:
    """The factory, method or `what` it is of that name, if it `fits`."""
    source, wanted = _parts(name)
    if not wanted:
        raise UserError(f"say which {what} of {source} is meant: {source}:{what.upper()}")
    module = _import_source(source)
    found = getattr(module, wanted, None)
    if not fits(found):
        names = [key for key, value in vars(module).items() if fits(value) and not key.startswith("_")]
        raise unknown(f"{what} in {source}", wanted, names or ["(none found)"])
    return found


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
