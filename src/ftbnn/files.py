"""Files that are whole or not there, files that one process holds, and what a .ftbnn file begins with."""

import errno
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from ftbnn.errors import UserError

if sys.platform != "win32":
    import fcntl

MAGIC = b"\x89FTBNN\r\n"  # docs/format.md


def is_packed(path: Path) -> bool:
    """Whether this is a .ftbnn file, by its first bytes, whatever it is called.

    One that is missing or damaged is what its name says: whoever reads it tells what is wrong.
    """
    try:
        if path.is_dir():
            return False
        if path.is_file():  # a pipe would block for ever
            with path.open("rb") as file:
                if file.read(len(MAGIC)) == MAGIC:
                    return True
    except OSError:
        pass  # cannot be read: as one that is missing
    return path.suffix == ".ftbnn"


DAY = 86400.0


def write_atomically(path: Path, data: bytes) -> None:
    """Writes under a name of its own, flushes to the disk, renames: a crash leaves the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    _forget_crashes(path)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        if sys.platform != "win32":  # where folders are no files
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UserError(
                f"the disk is full: {path} was not written ({len(data) / 1e6:.1f} MB needed); what was saved before is "
                f"intact. Free some space and try again (a training run: resume it)"
            ) from error
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def _forget_crashes(path: Path) -> None:
    """Half files that an older crash left do not pile up; younger ones may be another writer's."""
    with suppress(OSError):
        for half in path.parent.glob(f".{escape(path.name)}.*.tmp"):
            if time.time() - half.stat().st_mtime > DAY:
                half.unlink()


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Holds the lock, or yields False if another process does and we do not wait.

    The lock ends with the process, however it ends, and forked children do not have it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise UserError(f"cannot work in {path.parent}: {error.strerror or error}") from error
    with file:
        try:
            if sys.platform != "win32":
                fcntl.lockf(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                yield False
                return
            # A file system or system without such locks: better unguarded than not at all.
        yield True
