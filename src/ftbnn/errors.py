"""Ends that are not crashes: a user's mistake, said in one line with what to do, and a run that was asked to stop."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A mistake the user can mend. The command line prints its text as one line and exits with 2."""


class Stopped(Exception):
    """A run was asked to stop by a signal and has been saved: `where` it stands, and what goes on with it."""

    def __init__(self, number: int, where: str, *, again: str = "resume") -> None:
        super().__init__(f"stopped at {where}; everything is saved, go on with {again}")
        self.signal, self.where, self.again = number, where, again


def unknown(kind: str, name: str, choices: Iterable[str], *, hint: str = "") -> UserError:
    """The error for a name that is not among `choices`, with the nearest ones."""
    names = list(choices)
    near = get_close_matches(name.lower(), names, n=4, cutoff=0.4) or names[:4]
    return UserError(f"unknown {kind} {name!r}; did you mean {', '.join(near)}?" + (f" ({hint})" if hint else ""))


def first_line(error: BaseException) -> str:
    """What went wrong, in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0]
