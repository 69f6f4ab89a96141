"""Milliseconds on this machine: of every layer of a network, and of derived networks from a table of layer costs.

A derived network is a head (stem, bridge), four stages of one reduction and some equal blocks, and a tail. The table
has what those take for some widths v, measured on probes of 18 layers; other depths are sums, other widths are
interpolated. It is kept for each machine, and holds whole rows only.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from ftbnn.bench.rounds import progress_bar
from ftbnn.bench.subject import enliven
from ftbnn.budget import Budget
from ftbnn.budget.count import BITS_PER_WORD
from ftbnn.errors import UserError
from ftbnn.files import write_atomically
from ftbnn.machine import capabilities, versions
from ftbnn.models.derived import BLOCKS, DerivedFTBNN
from ftbnn.packing import pack
from ftbnn.runtime import Model, load
from ftbnn.workflows.networks import build

# Widths v in the table: odd ones, for most widths fill vectors no better than these do.
PROBES = (5, 11, 17, 23, 29, 35, 41, 47, 53, 59, 67, 75, 83, 91, 101, 113, 127, 143, 163, 187)
PROBE_LAYERS = 18
ROUNDS = 15
LEAST_MS = 0.001  # of a layer that costs nothing, to be shown
GROUPS = (1, 3, 5, 8)  # of the paper
Shape = tuple[int, int, int]


def engine_of(network: nn.Module, shape: Shape, folder: Path, threads: int) -> Model:
    """The network in the engine, with numbers in place of a fresh network's zeros."""
    file = folder / "network.ftbnn"
    pack(enliven(network), torch.zeros(1, *shape), file)
    return load(file, threads=threads)


def layer_times(model: Model, *, rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds of each operator, by its layer's path; "" is what reading the image takes."""
    image = np.random.default_rng(0).standard_normal((1, *model.input_shape), np.float32)
    times: dict[str, float] = {}
    for time in model.profile(image, rounds=rounds):
        times[time.path] = times.get(time.path, 0.0) + time.time_ms
    return times


def measured_ms(model: Model, *, rounds: int = ROUNDS) -> float:
    """The fastest of some calls, image to scores."""
    return sum(layer_times(model, rounds=rounds).values())


def measured_layers(
    model: str, budget: Budget, *, threads: int = 1, rounds: int = ROUNDS, **settings: Any
) -> tuple[list[dict[str, Any]], str]:
    """Each layer's part of the budget beside its milliseconds here, in the order in which they run; and the ISA."""
    channels, height, width = budget.input_shape[-3:]
    given = {name: value for name, value in settings.items() if value is not None}
    with TemporaryDirectory() as folder:
        engine = engine_of(build(model, **given), (channels, height, width), Path(folder), threads)
        times = layer_times(engine, rounds=rounds)
    costs: dict[str, float] = {}
    inside = ""  # what no operator does by itself is done with the one before
    for layer in budget.layers:
        inside = layer.path if times.get(layer.path) else inside
        costs[inside] = costs.get(inside, 0.0) + layer.flops(budget.rule) + layer.bops(budget.rule) / BITS_PER_WORD
    rows = [
        {
            "path": path or "the image",
            "budget_m": costs.get(path, 0.0) / 1e6,
            "budget_share": costs.get(path, 0.0) / budget.budget if budget.budget else 0.0,
            "ms": ms,
        }
        for path, ms in times.items()
        if ms >= LEAST_MS or costs.get(path)
    ]
    return rows, engine.isa


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


@dataclass(frozen=True)
class Found:
    """A network within the limit, as predicted and as measured."""

    layers: int
    groups: int
    v: int
    predicted_ms: float
    measured_ms: float

    @property
    def name(self) -> str:
        return f"ftbnn-d{self.layers}-g{self.groups}-v{self.v}"

    @property
    def error(self) -> float:
        return self.predicted_ms / self.measured_ms - 1


def widest_within(
    limit_ms: float,
    *,
    layers: Sequence[int] = tuple(BLOCKS),
    groups: Sequence[int] = GROUPS,
    threads: int = 1,
    shape: Shape = (3, 224, 224),
    classes: int = 1000,
    folder: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Found]:
    """For each depth and number of groups the widest derived network that runs within so many milliseconds here."""
    if not limit_ms > 0:
        raise UserError(f"a latency is a number of milliseconds above 0, not {limit_ms:g}")
    for depth in layers:
        if depth not in BLOCKS:
            raise UserError(f"there are derived networks of {', '.join(map(str, BLOCKS))} layers, not of {depth}")
    costs = CostTable(threads=threads, shape=shape, classes=classes, folder=folder)
    if costs.is_of_another_machine:
        say(f"the costs in {costs.path} are of another machine or version: they are measured anew")
    costs.measure(groups, up_to=limit_ms, layers=min(layers))
    found: list[Found] = []
    least = float("inf")
    with TemporaryDirectory() as scratch:
        for depth in layers:
            for g in groups:
                narrowest, widest = costs.reach(g)
                v = next((v for v in range(widest, narrowest - 1, -1) if costs.predict(depth, g, v) <= limit_ms), None)
                least = min(least, costs.predict(depth, g, narrowest))
                while v is not None and v >= narrowest:
                    taken = measured_ms(engine_of(costs.network(depth, g, v), shape, Path(scratch), threads))
                    if taken <= limit_ms:
                        found.append(Found(depth, g, v, costs.predict(depth, g, v), taken))
                        break
                    v -= max(1, round(v * (1 - (limit_ms / taken) ** 0.5)))
    if not found:
        raise UserError(f"no network runs within {limit_ms:g} ms here: the least reachable is about {least:.2f} ms")
    return found
