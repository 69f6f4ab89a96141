"""Single layers: what a convolution with its whole epilogue takes in the engine, beside the roof of its ISA.

A layer is measured where it would stand, between two of its kind, so that it reads codes and writes codes: BatchNorm,
shortcut, FPReLU, the real stream and the next layer's signs are all inside. Layers and roofs take turns.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from ftbnn.bench.bounds import bounds
from ftbnn.bench.rounds import progress_bar
from ftbnn.bench.subject import enliven
from ftbnn.errors import UserError
from ftbnn.nn import BasicBlock, PlainStem, ProjectionReduction
from ftbnn.packing import pack
from ftbnn.runtime import Model, load

WARM_UP = 3
TURN_CALLS = 5


@dataclass(frozen=True)
class Layer:
    """The operator `path` of a small network."""

    name: str
    is_binary: bool
    network: Callable[[], nn.Module]
    input_shape: tuple[int, int, int]
    path: str


def _blocks(channels: int, groups: int) -> nn.Module:
    return nn.Sequential(*(BasicBlock(channels, act="fprelu", follows_relu=False, groups=groups) for _ in range(3)))


def _binary(channels: int, side: int, groups: int = 1) -> Layer:
    name = f"3x3 {channels} @ {side}" if groups == 1 else f"3x3 {groups} groups of {channels // groups} @ {side}"
    return Layer(name, True, lambda: _blocks(channels, groups), (channels, side, side), "1.conv")


LAYERS = (
    _binary(64, 56),
    _binary(128, 28),
    _binary(256, 14),
    _binary(512, 7),
    _binary(176, 56, 5),
    _binary(704, 14, 5),
    Layer("7x7/2 3 to 64 @ 112", False, lambda: PlainStem(3, 64), (3, 224, 224), "conv"),
    Layer(
        "1x1 64 to 128 @ 28",
        False,
        lambda: ProjectionReduction(64, act="fprelu", follows_relu=False),
        (64, 56, 56),
        "shortcut.1",
    ),
)


class _Measured:
    """A layer in the engine of one ISA, with the times it took and the best that its roof reached."""

    def __init__(self, layer: Layer, isa: str, model: Model) -> None:
        self.layer, self.isa, self.model = layer, isa, model
        self.image = np.random.default_rng(0).standard_normal((1, *layer.input_shape), np.float32)
        rows = model.operators()
        self.index = next(k for k, row in enumerate(rows) if row["path"] == layer.path)
        self.macs = rows[self.index]["macs"]
        self.times: list[float] = []
        self.roof_name, self.roof_gmacs = "", 0.0

    def turn(self) -> None:
        for _ in range(TURN_CALLS):
            self.times.append(self.model.profile(self.image, rounds=1)[self.index + 1].time_ms)
        roof = bounds().roof(self.isa, self.layer.is_binary)
        if roof is not None:
            self.roof_name, self.roof_gmacs = roof[0], max(self.roof_gmacs, roof[1])

    def row(self) -> dict[str, Any]:
        best = min(self.times)
        rate = 1e-6 * self.macs / best
        return {
            "name": self.layer.name,
            "engine": "ftbnn",
            "precision": "binary" if self.layer.is_binary else "fp32",
            "isa": self.isa,
            "threads": 1,
            "batch": 1,
            "median_ms": statistics.median(self.times),
            "min_ms": best,
            "images_per_s": 1e3 / statistics.median(self.times),
            "gmacs_per_s": rate,
            "roof": self.roof_name or None,
            "roof_gmacs_per_s": self.roof_gmacs or None,
            "share_of_roof": rate / self.roof_gmacs if self.roof_gmacs else None,
        }


def measure(isas: Sequence[str], *, rounds: int = 40, layers: Sequence[Layer] = LAYERS) -> list[dict[str, Any]]:
    """A row for each layer and ISA, one thread; GMAC/s and share are those of the fastest call."""
    if rounds < 1:
        raise UserError(f"rounds must be 1 or more, not {rounds}")
    measured = []
    with TemporaryDirectory() as folder:
        for number, layer in enumerate(layers):
            torch.manual_seed(0)
            path = Path(folder) / f"{number}.ftbnn"
            pack(enliven(layer.network()), torch.zeros(1, *layer.input_shape), path)
            for isa in isas:
                measured.append(_Measured(layer, isa, load(path, threads=1, isa=isa, any_order=True)))
    with progress_bar((WARM_UP + rounds) * len(measured)) as bar:
        for number in range(WARM_UP + rounds):
            for one in measured:
                one.turn()
                if number < WARM_UP:
                    one.times.clear()
                bar.update()
    return [one.row() for one in measured]
