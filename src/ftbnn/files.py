"""Files that are whole or not there."""

import errno
import os
from pathlib import Path

from ftbnn.errors import UserError


def write_atomically(path: Path, data: bytes) -> None:
    """Writes under another name, flushes to the disk, renames: a crash leaves the old file or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")  # one name: what a crash leaves is overwritten, not piled up
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
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
                f"intact. Free some space and try again (a training run: with --resume)"
            ) from error
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
