"""What the parts of derived networks take on this machine: a table, measured once and kept.

A derived network is a head (stem, bridge), four stages of a reduction, some equal blocks and an end (its activation is
another), and a tail. A row is what those take at a width v, measured on a probe with one of each; networks of any depth
are sums. Time is a jagged function of v, for kernels count channels of a group in whole vectors, words and bytes: two
neighbouring widths may differ by a third. So widths without a row are interpolated only to find where to look, and a
width that matters gets a row of its own. The table is kept for each machine, and holds whole rows only.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ftbnn.bench.rounds import progress_bar
from ftbnn.errors import UserError
from ftbnn.files import locked, write_atomically
from ftbnn.machine import capabilities, engine_checksum, versions
from ftbnn.models.derived import BLOCKS, DerivedFTBNN
from ftbnn.workflows.timing import Shape, engine_of, layer_times, measured_ms

# Widths v that every table has: odd ones, for most widths fill vectors no better than these do.
PROBES = (5, 11, 17, 25, 35, 47, 63, 83, 107, 131, 159, 187)
STAGES = 4


@dataclass(frozen=True)
class Parts:
    """What a derived network's parts take, in milliseconds."""

    head: float
    reductions: tuple[float, ...]  # of each stage
    blocks: tuple[float, ...]  # one of each stage
    ends: tuple[float, ...]  # the last block of each stage
    tail: float

    def total(self, layers: int) -> float:
        between = sum((n - 2) * block for n, block in zip(BLOCKS[layers], self.blocks, strict=True))
        return self.head + sum(self.reductions) + between + sum(self.ends) + self.tail

    def numbers(self) -> list[float]:
        return [self.head, *self.reductions, *self.blocks, *self.ends, self.tail]

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Parts":
        head, *stages, tail = numbers
        if len(stages) != 3 * STAGES:
            raise ValueError(f"a row has {3 * STAGES + 2} numbers, not {len(numbers)}")
        reductions, blocks, ends = (tuple(stages[k : k + STAGES]) for k in range(0, 3 * STAGES, STAGES))
        return cls(head, reductions, blocks, ends, tail)


def parts_of(times: dict[str, float]) -> Parts:
    """Of a probe's layer times."""
    stages = np.zeros((3, STAGES))  # reduction, block, end
    head = tail = 0.0
    for path, ms in times.items():
        name, _, rest = path.partition(".")
        if name.startswith("stage"):
            block = int(rest.partition(".")[0].partition(":")[0])
            stages[block, int(name.removeprefix("stage")) - 1] += ms
        elif name in ("pool", "fc"):
            tail += ms
        else:
            head += ms
    return Parts.of([head, *stages.ravel().tolist(), tail])


def _shares(times: dict[str, float], whole: float) -> dict[str, float]:
    """The layers' times, made to add up to what a call takes."""
    share = whole / sum(times.values())
    return {path: share * ms for path, ms in times.items()}


def derived(layers: int, groups: int, v: int, *, shape: Shape, classes: int) -> DerivedFTBNN:
    torch.manual_seed(0)
    return DerivedFTBNN(layers=layers, groups=groups, v=v, classes=classes, in_channels=shape[0])


def probe(groups: int, v: int, *, shape: Shape, classes: int) -> nn.Module:
    """The shortest derived network, cut down to a reduction, a block and an end in each stage."""
    network = derived(min(BLOCKS), groups, v, shape=shape, classes=classes)
    for number in range(1, STAGES + 1):
        stage = network.get_submodule(f"stage{number}")
        assert isinstance(stage, nn.Sequential)
        del stage[2:-1]
    return network


def default_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ftbnn"


class CostTable:
    """Parts by groups and width, for one machine, number of threads and shape of images."""

    def __init__(self, *, threads: int, shape: Shape, classes: int, folder: Path | None = None) -> None:
        known = capabilities()
        self.machine = {"cpu": known["cpu"], "isa": known["isa"], "ftbnn": versions()["ftbnn"]}
        self.machine["engine"] = engine_checksum()
        self.threads, self.shape, self.classes = threads, shape, classes
        name = f"costs-{threads}-{'x'.join(map(str, shape))}-{classes}.json"
        self.path = (folder or default_folder()) / name
        self.rows, self.is_of_another_machine = self._kept()

    def _kept(self) -> tuple[dict[str, list[float]], bool]:
        """The file's rows, and whether it tells of another machine, or of another program: measured anew."""
        try:
            kept = json.loads(self.path.read_text())
            if kept["machine"] == self.machine:
                rows = {key: Parts.of([float(n) for n in row]).numbers() for key, row in kept["rows"].items()}
                return rows, False
        except FileNotFoundError:
            return {}, False
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        return {}, True

    def row(self, groups: int, v: int) -> Parts:
        """What the table has for that width; measured first where it has nothing."""
        key = f"g{groups}-v{v}"
        if key not in self.rows:
            model = engine_of(probe(groups, v, shape=self.shape, classes=self.classes), self.shape, self.threads)
            self.rows[key] = parts_of(_shares(layer_times(model), measured_ms(model))).numbers()
            self._write()
        return Parts.of(self.rows[key])

    def measure(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Adds rows (groups, v) where they are missing."""
        missing = [(g, v) for g, v in dict.fromkeys(wanted) if f"g{g}-v{v}" not in self.rows]
        with progress_bar(len(missing)) as bar:
            for g, v in missing:
                self.row(g, v)
                bar.update()

    def survey(self, groups: Sequence[int], *, up_to: float, layers: int) -> None:
        """Adds the probes that are missing, from narrow to wide, until one of that depth takes more than `up_to` ms."""
        with progress_bar(len(groups) * len(PROBES)) as bar:
            for g in groups:
                is_slow = False
                for v in PROBES:
                    is_slow = is_slow or (v >= _narrowest(g) and self.row(g, v).total(layers) > up_to)
                    bar.update()

    def _write(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot keep the table of costs in {self.path.parent}: {error.strerror}") from error
        with locked(self.path.with_suffix(".lock")):
            self.rows = self._kept()[0] | self.rows  # what another process has measured meanwhile too
            text = json.dumps({"machine": self.machine, "rows": self.rows}, indent=1)
            write_atomically(self.path, text.encode())

    def network(self, layers: int, groups: int, v: int) -> nn.Module:
        return derived(layers, groups, v, shape=self.shape, classes=self.classes)

    def predict(self, layers: int, groups: int, v: int) -> float:
        """Milliseconds: of the width's own row, or between those of the rows at both sides, as a curve of v and v^2."""
        known = self.widths(groups)
        above = next((index for index, width in enumerate(known) if width >= v), len(known) - 1)
        low, high = known[max(above - 1, 0)], known[above]
        first, second = (np.array(self.rows[f"g{groups}-v{width}"]) for width in (low, high))
        share = 1.0 if low == high else (v * v - low * low) / (high * high - low * low)
        return Parts.of(list(first + share * (second - first))).total(layers)

    def widths(self, groups: int) -> list[int]:
        """Those that have rows, from narrow to wide."""
        return sorted(int(key.rpartition("v")[2]) for key in self.rows if key.startswith(f"g{groups}-"))


def _narrowest(groups: int) -> int:
    return -(-groups // 2)
