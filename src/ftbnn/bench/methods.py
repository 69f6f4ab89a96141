"""A training step of each method beside that of the network's own, and how much of it the native core does."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from ftbnn import _native
from ftbnn.bench.train import WARM_UP, Case, check_rounds
from ftbnn.errors import UserError
from ftbnn.models import find
from ftbnn.nn import METHODS, Backend, BConv, method_named
from ftbnn.nn.native.block import listening

REFERENCE = "ftbnn"


def measure_methods(case: Case, names: Sequence[str], *, rounds: int = 4) -> Iterator[dict[str, Any]]:
    """A row per method, as they come: milliseconds in each formulation, `share` of the speed of FTBNN's own step, which
    takes its turn in every round, and how many of its binary convolutions run natively."""
    check_rounds(rounds)
    if not find(case.model).has_methods:
        raise UserError(f"{case.model} is not made binary by a method; ftbnn18 and the derived networks are")
    torch.set_num_threads(case.threads)
    has_bytes = _native.capabilities()["training"]["bytes"]
    natives: tuple[Backend, ...] = ("native", "native8") if has_bytes else ("native",)
    ours = {backend: replace(case, method=REFERENCE).training(backend)[1] for backend in natives}
    for name in names or METHODS:
        method_named(name)
        own = {backend: replace(case, method=name).training(backend) for backend in ("plain", *natives)}
        heard: list[int] = []
        with listening(lambda *_, heard=heard: heard.append(1)):
            own["native"][1]()
        steps = {backend: step for backend, (_, step) in own.items()} | {f"{REFERENCE} {b}": ours[b] for b in natives}
        times = _times(steps, rounds)
        yield {
            "method": name,
            "convolutions": sum(isinstance(layer, BConv) for layer in own["native"][0].modules()),
            "natively": len(heard) // 2,  # forward and backward
            **{f"{backend}_ms": times[backend] for backend in own},
            "speedup": times["plain"] / min(times[b] for b in natives),
            **{f"{b}_share": times[f"{REFERENCE} {b}"] / times[b] for b in natives},
        }


def _times(steps: dict[str, Any], rounds: int) -> dict[str, float]:
    """Milliseconds of each, by medians of interleaved turns."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(WARM_UP + rounds):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if turn >= WARM_UP:
                taken[name].append(time.perf_counter() - started)
    return {name: 1e3 * statistics.median(found) for name, found in taken.items()}
