"""What the parts of derived networks take on this machine: a table, measured once and kept.

A derived network is a head (stem, bridge), four stages of one reduction and some equal blocks, and a tail. The table
has what those take for some widths v, measured on probes of 18 layers; other depths are sums, other widths are
interpolated. It is kept for each machine, and holds whole rows only.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

from ftbnn.bench.rounds import progress_bar
from ftbnn.errors import UserError
from ftbnn.files import write_atomically
from ftbnn.machine import capabilities, versions
from ftbnn.models.derived import BLOCKS, DerivedFTBNN
from ftbnn.workflows.timing import Shape, engine_of, layer_times

# Widths v in the table: odd ones, for most widths fill vectors no better than these do.
PROBES = (5, 11, 17, 23, 29, 35, 41, 47, 53, 59, 67, 75, 83, 91, 101, 113, 127, 143, 163, 187)
PROBE_LAYERS = 18


@dataclass(frozen=True)
class Parts:
    """What a derived network's parts take, in milliseconds."""

    head: float
    reductions: tuple[float, ...]  # of each stage
    blocks: tuple[float, ...]  # one of each stage
    tail: float

    def total(self, layers: int) -> float:
        stages = zip(self.reductions, self.blocks, BLOCKS[layers], strict=True)
        return self.head + self.tail + sum(first + (n - 1) * block for first, block, n in stages)

    def numbers(self) -> list[float]:
        return [self.head, *self.reductions, *self.blocks, self.tail]

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Parts":
        return cls(numbers[0], tuple(numbers[1:5]), tuple(numbers[5:9]), numbers[9])


def parts_of(times: dict[str, float]) -> Parts:
    """Of a probe's layer times."""
    stages: dict[str, list[float]] = {}
    head = tail = 0.0
    for path, ms in times.items():
        name, _, rest = path.partition(".")
        if name.startswith("stage"):
            index = rest.partition(".")[0].partition(":")[0]
            first, others = stages.setdefault(name, [0.0, 0.0])
            stages[name] = [first + ms, others] if index == "0" else [first, others + ms]
        elif name in ("pool", "fc"):
            tail += ms
        else:
            head += ms
    counts = BLOCKS[PROBE_LAYERS]
    found = [stages[f"stage{number}"] for number in range(1, len(counts) + 1)]
    blocks = tuple(others / (n - 1) for (_, others), n in zip(found, counts, strict=True))
    return Parts(head, tuple(first for first, _ in found), blocks, tail)


def default_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ftbnn"


class CostTable:
    """The parts of probes by width, for one machine, number of threads and shape of images."""

    def __init__(self, *, threads: int, shape: Shape, classes: int, folder: Path | None = None) -> None:
        known = capabilities()
        self.machine = {"cpu": known["cpu"], "isa": known["isa"], "ftbnn": versions()["ftbnn"]}
        self.threads, self.shape, self.classes = threads, shape, classes
        name = f"costs-{threads}-{'x'.join(map(str, shape))}-{classes}.json"
        self.path = (folder or default_folder()) / name
        self.rows: dict[str, list[float]] = {}
        self.is_of_another_machine = False
        self._read()

    def _read(self) -> None:
        try:
            kept = json.loads(self.path.read_text())
            self.is_of_another_machine = kept["machine"] != self.machine
            if not self.is_of_another_machine:
                self.rows = {key: [float(number) for number in row] for key, row in kept["rows"].items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.is_of_another_machine = True  # or of another program: measured anew

    def measure(self, groups: Sequence[int], *, up_to: float, layers: int) -> None:
        """Adds the probes that are missing, from narrow to wide, until one of that depth takes more than `up_to` ms."""
        wanted = [(g, v) for g in groups for v in PROBES if v >= _narrowest(g)]
        with progress_bar(len(wanted)) as bar, TemporaryDirectory() as folder:
            slow: set[int] = set()
            for g, v in wanted:
                bar.update()
                if g in slow:
                    continue
                key = f"g{g}-v{v}"
                if key not in self.rows:
                    network = self.network(PROBE_LAYERS, g, v)
                    model = engine_of(network, self.shape, Path(folder), self.threads)
                    self.rows[key] = parts_of(layer_times(model)).numbers()
                    self._write()
                if Parts.of(self.rows[key]).total(layers) > up_to:
                    slow.add(g)

    def _write(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot keep the table of costs in {self.path.parent}: {error.strerror}") from error
        text = json.dumps({"machine": self.machine, "rows": self.rows}, indent=1)
        write_atomically(self.path, text.encode())

    def network(self, layers: int, groups: int, v: int) -> nn.Module:
        torch.manual_seed(0)
        return DerivedFTBNN(layers=layers, groups=groups, v=v, classes=self.classes, in_channels=self.shape[0])

    def predict(self, layers: int, groups: int, v: int) -> float:
        """Milliseconds: each part between those of the probes at both sides, as a curve of v and v^2 through them."""
        known = sorted(int(key.rpartition("v")[2]) for key in self.rows if key.startswith(f"g{groups}-"))
        above = next((index for index, width in enumerate(known) if width >= v), len(known) - 1)
        low, high = (known[max(above - 1, 0)], known[above]) if len(known) > 1 else (known[0], known[0])
        first, second = (np.array(self.rows[f"g{groups}-v{width}"]) for width in (low, high))
        share = 0.0 if low == high else (v * v - low * low) / (high * high - low * low)
        return Parts.of(list(first + share * (second - first))).total(layers)

    def reach(self, groups: int) -> tuple[int, int]:
        """The narrowest and the widest v that the table speaks of."""
        known = [int(key.rpartition("v")[2]) for key in self.rows if key.startswith(f"g{groups}-")]
        return min(known), max(known)


def _narrowest(groups: int) -> int:
    return -(-groups // 2)
