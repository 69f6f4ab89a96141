"""What a run leaves to look at: metrics.jsonl, TensorBoard events, and statistics of the binary layers."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.files import write_atomically
from ftbnn.nn.layer import layers


class Recorder:
    """Appends rows to metrics.jsonl and TensorBoard.

    A resumed run makes the rows after its checkpoint again: those past `after_step`, and those of epochs that are not
    among the `epochs` done, are dropped.
    """

    def __init__(self, folder: Path, *, after_step: int = 0, epochs: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.jsonl"
        rows = read(self.path) if self.path.exists() else []
        kept = [r for r in rows if r["step"] <= after_step and (r["kind"] != "epoch" or r["epoch"] < epochs)]
        write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in kept).encode())
        self.board: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=after_step + 1 if after_step else None)

    def write(self, row: dict[str, Any]) -> None:
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}; resume it later") from error
        with self._forgiving():
            for key, value in _flat(row) if self.board is not None else ():
                self.board.add_scalar(f"{row['kind']}/{key}", value, row["step"])

    def close(self) -> None:
        with self._forgiving():
            if self.board is not None:
                self.board.close()

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """TensorBoard only repeats what metrics.jsonl has: a full disk ends it, not the training."""
        try:
            yield
        except OSError as error:
            self.board = None
            warnings.warn(f"TensorBoard gets nothing more: {error.strerror or error}", stacklevel=3)


def _flat(row: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    pairs = []
    for key, value in row.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and key not in ("step", "epoch"):
            pairs.append((prefix + key, float(value)))
    return pairs


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics.jsonl. A last line that a crash cut off is left out."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            if number < len(lines):
                raise UserError(f"{path}, line {number} is not JSON") from None
            continue
        if not isinstance(row, dict) or not {"kind", "step"} <= set(row):
            raise UserError(f"{path}, line {number} is not a row of metrics")
        rows.append(row)
    return rows


def _signs(network: nn.Module) -> dict[str, Tensor]:
    found = ((name, layer.weight_signs()) for name, layer in layers(network))
    return {name: signs.cpu() for name, signs in found if signs is not None}


class Flips:
    """The share of binary weights whose sign changed since the last look, per layer."""

    def __init__(self, network: nn.Module) -> None:
        self.network, self.signs = network, _signs(network)

    def ratios(self) -> dict[str, float]:
        """Looks, compares and remembers."""
        now = _signs(self.network)
        ratios = {name: (signs != self.signs[name]).float().mean().item() for name, signs in now.items()}
        self.signs = now
        return ratios

    def state(self) -> dict[str, Tensor]:
        """The remembered signs, one bit each."""
        return {name: torch.from_numpy(np.packbits(signs.numpy())) for name, signs in self.signs.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        for name, packed in state.items():
            bits = np.unpackbits(packed.numpy(), count=len(self.signs[name]))
            self.signs[name] = torch.from_numpy(bits.astype(bool))
