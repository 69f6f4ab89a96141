"""Milliseconds on this machine: of a network, and of every layer of it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from ftbnn.bench.subject import enliven
from ftbnn.budget import Budget
from ftbnn.budget.count import BITS_PER_WORD
from ftbnn.packing import pack
from ftbnn.runtime import Model, load
from ftbnn.workflows.networks import build

ROUNDS = 15
LEAST_MS = 0.001  # of a layer that costs nothing, to be shown
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
