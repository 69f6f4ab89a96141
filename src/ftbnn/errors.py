"""Ends that are not crashes: a user's mistake, said in one line with what to do, and a run that was asked to stop."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import fields
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, TypeVar

Made = TypeVar("Made")


class UserError(ValueError):
    """A mistake the user can mend. The command line prints its text as one line and exits with 2."""


class NoModule(ModuleNotFoundError, UserError):
    """A UserError of an import: who tries one is told as of any module that is not there."""


class NoName(AttributeError, UserError):
    """A UserError of a name: `hasattr` takes it for no."""


class Stopped(Exception):
    """A run was asked to stop by a signal and has been saved: `where` it stands, and what goes on with it."""

    def __init__(self, number: int, where: str, *, again: str = "Options(resume=True)") -> None:
        super().__init__(f"stopped at {where}; everything is saved, go on with {again}")
        self.signal, self.where, self.again = number, where, again


def unknown(kind: str, name: str, choices: Iterable[str], *, hint: str = "") -> UserError:
    """The error for a name that is not among `choices`, with the nearest ones."""
    names = list(choices)
    near = get_close_matches(name.lower(), names, n=4, cutoff=0.4) or names[:4]
    return UserError(f"unknown {kind} {name!r}; did you mean {', '.join(near)}?" + (f" ({hint})" if hint else ""))


def wrong_kind(wanted: str, given: object) -> UserError:
    """The error for an argument of a type that nothing can be done with."""
    kind = type(given).__name__
    article = "an" if kind[0] in "aeiouAEIOU" else "a"
    return UserError(f"{wanted}, not {'None' if given is None else f'{article} {kind}'}")


def has_torch() -> bool:
    """Whether PyTorch is installed; the light runtime goes without."""
    try:
        return find_spec("torch") is not None
    except ImportError:
        return False


def lacks_torch(what: str, kind: type[UserError] = UserError) -> UserError:
    """The error where only the light runtime is there."""
    return kind(f"{what} needs PyTorch, which the light install leaves out: pip install 'ftbnn[train]'")


def refusing(stray: Callable[[str], UserError]) -> Callable[[type[Made]], type[Made]]:
    """Makes a dataclass answer a setting that it does not have with `stray`'s error, not with its own signature."""

    def wrapped(kind: type[Made]) -> type[Made]:
        init: Callable[..., None] = kind.__init__
        known = {field.name for field in fields(kind)}  # type: ignore[arg-type]

        @functools.wraps(init)
        def checked(self: Made, *values: Any, **settings: Any) -> None:
            for name in settings:
                if name not in known:
                    raise stray(name)
            init(self, *values, **settings)

        type.__setattr__(kind, "__init__", checked)
        return kind

    return wrapped


def first_line(error: BaseException) -> str:
    """What went wrong, in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0]
