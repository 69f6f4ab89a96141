"""Checkpoints that are whole or not there, and that cannot run code when they are read."""

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ftbnn.errors import UserError
from ftbnn.files import is_packed, write_atomically

VERSION = 1


def save(path: Path, state: dict[str, Any]) -> None:
    """Writes tensors, numbers, texts, lists and dicts; what `load` would not read, an optimizer of one's own may bring
    it along, is refused now and not when it is needed."""
    buffer = io.BytesIO()
    torch.save({"version": VERSION, **state}, buffer)
    data = buffer.getvalue()
    try:
        torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(
            f"{path} was not written: the state of the optimizer, scheduler or network holds more than data"
        ) from error
    write_atomically(path, data)


def load(path: Path) -> dict[str, Any]:
    """Reads what `save` wrote, as data only: a file that would run code is refused."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"no checkpoint at {path}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        if is_packed(path):
            made_of = "give the run or the checkpoint that it was made of"
            raise UserError(f"{path} is a packed file, not a checkpoint: {made_of}") from None
        raise UserError(f"{path} is not a checkpoint, is damaged, or holds more than data; it was not read") from error
    if not isinstance(state, dict) or "version" not in state:
        raise UserError(f"{path} is not a checkpoint of ftbnn")
    if state["version"] != VERSION:
        raise UserError(f"{path} has checkpoint version {state['version']}; this ftbnn reads version {VERSION}")
    return state


def random_state() -> dict[str, Any]:
    """The states of every generator a network or a user's code may draw from."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": [version, list(words), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys, dtype=np.int64)), position, has_gauss, cached],
    }


def restore_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    if state["cuda"] and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))  # noqa: NPY002
