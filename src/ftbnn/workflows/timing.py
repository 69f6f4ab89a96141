"""Milliseconds on this machine: of a network, and of every layer of it."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ftbnn.bench.subject import enliven
from ftbnn.budget import Budget
from ftbnn.budget.count import BITS_PER_WORD
from ftbnn.packing import build_graph
from ftbnn.packing.write import InputInfo, encode
from ftbnn.runtime import Model, load
from ftbnn.workflows.networks import build

ROUNDS = 15
MOST_REPEATS = 4  # of those rounds
SETTLED = 0.99  # of the time before: no longer faster
LEAST_MS = 0.001  # of a layer that costs nothing, to be shown
Shape = tuple[int, int, int]


def engine_of(network: nn.Module, shape: Shape, threads: int) -> Model:
    """The network in the engine, with numbers in place of a fresh network's zeros.

    Its answers are not compared with the module's, as those of an export are: that takes longer than the measuring.
    """
    graph = build_graph(enliven(network), torch.zeros(1, *shape))
    channels, *sides = shape
    info = InputInfo("", mean=[0.0] * channels, std=[1.0] * channels, resize=max(sides), class_names=())
    return load(encode(graph, info), threads=threads)


def layer_times(model: Model, *, rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds of each operator, by its layer's path; "" is what reading the image takes."""

    def fastest() -> dict[str, float]:
        times: dict[str, float] = {}
        for time in model.profile(random_image(model), rounds=rounds):
            times[time.path] = times.get(time.path, 0.0) + time.time_ms
        return times

    return _settled(fastest)


def measured_ms(model: Model, *, rounds: int = ROUNDS) -> float:
    """The fastest of some calls, image to scores: a few percent more than its operators one by one."""
    image = random_image(model)

    def fastest() -> dict[str, float]:
        return {"": 1e3 * min(_seconds(model, image) for _ in range(rounds))}

    return _settled(fastest)[""]


def random_image(model: Model) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((1, *model.input_shape), np.float32)


def _seconds(model: Model, image: NDArray[np.float32]) -> float:
    started = perf_counter()
    model(image)
    return perf_counter() - started


def _settled(measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Measured again for as long as that is faster: a machine may be slow for a while."""
    times = measure()
    for _ in range(MOST_REPEATS):
        again, before = measure(), sum(times.values())
        times = {path: min(ms, again[path]) for path, ms in times.items()}
        if sum(times.values()) > SETTLED * before:
            break
    return times


def measured_layers(
    model: str, budget: Budget, *, threads: int = 1, rounds: int = ROUNDS, **settings: Any
) -> tuple[list[dict[str, Any]], str]:
    """Each layer's part of the budget beside its milliseconds here, in the order in which they run; and the ISA."""
    channels, height, width = budget.input_shape[-3:]
    given = {name: value for name, value in settings.items() if value is not None}
    engine = engine_of(build(model, **given), (channels, height, width), threads)
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
