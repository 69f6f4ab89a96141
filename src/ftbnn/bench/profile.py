"""Where the time of one native training step goes: data, forward, backward, optimizer; the phases of every block, and
what is left to PyTorch."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.profiler import ProfilerActivity, profile

from ftbnn import _native
from ftbnn.bench.bounds import bounds
from ftbnn.bench.rounds import PAUSE_S
from ftbnn.bench.train import WARM_UP, Case, Phases, check_rounds
from ftbnn.nn.layer import layers
from ftbnn.nn.native import require
from ftbnn.nn.native.block import listening

_NATIVE = ("stem", "norm", "_Average", "_Repeat")  # operators of ours that are no blocks
ROOF_S = 0.02  # clocks need milliseconds to rise


@dataclass(frozen=True)
class Profile:
    """The fastest of some steps. `phases` are its seconds of data, forward, backward and optimizer."""

    phases: Phases
    rows: list[dict[str, Any]]  # of operators: layer, operator, ms, share of the step, GMAC/s and share of the roof

    @property
    def seconds(self) -> float:
        return sum(self.phases.values())

    def phase_rows(self) -> list[dict[str, Any]]:
        return [{"phase": name, "ms": 1e3 * s, "share": s / self.seconds} for name, s in self.phases.items()]


def profile_step(case: Case, backend: Literal["native", "native8"] = "native", *, rounds: int = 5) -> Profile:
    """Where the fastest of `rounds` steps spends its time.

    The roofs, of forward and of the gradients, are loops of nothing but their multiplications on as many threads, run
    before the first and after each step: what counts is the best of them all.
    """
    check_rounds(rounds)
    require(backend)
    torch.set_num_threads(case.threads)
    network, step = case.training(backend, loads=True)
    names = {p.data_ptr(): name for name, layer in layers(network) for p in layer.parameters(recurse=False)}
    rows: list[dict[str, Any]] = []

    def listen(weights: int, macs: int, phases: dict[str, float]) -> None:
        rows.extend(
            {
                "layer": names.get(weights, "a layer"),
                "operator": phase,
                "ms": 1e3 * taken,
                "macs": macs if phase in ("conv", "conv gradients") else None,
            }
            for phase, taken in phases.items()
        )

    best, found = None, rows
    roofs = _roofs(case.threads, backend)
    with listening(listen):
        for turn in range(WARM_UP + rounds):
            rows = []
            seen = profile(activities=[ProfilerActivity.CPU])
            with without_marks():
                seen.start()
            try:
                phases = step()
            finally:
                with without_marks():
                    seen.stop()
            if turn >= WARM_UP and (best is None or sum(phases.values()) < sum(best.values())):
                best, found = phases, rows + _torch_rows(seen)
            roofs = {name: max(rate, roofs[name]) for name, rate in _roofs(case.threads, backend).items()}
    assert best is not None
    total = 1e3 * sum(best.values())
    rest = total - 1e3 * best["data"] - sum(row["ms"] for row in found)
    found.append({"layer": "Python", "operator": "between operators", "ms": max(0.0, rest), "macs": None})
    found.append({"layer": "data", "operator": "wait for the batch", "ms": 1e3 * best["data"], "macs": None})
    slowest_first = sorted(found, key=lambda row: -row["ms"])
    return Profile(best, [_finished(row, total, roofs.get(row["operator"])) for row in slowest_first])


def _roofs(threads: int, backend: str) -> dict[str, float]:
    """GMAC/s by operator, of all threads, right now."""
    time.sleep(PAUSE_S)  # or PyTorch's threads would still spin on the cores that this measures
    forward = bounds().roof(_native.capabilities()["isa"], True, threads, ROOF_S)
    gradients = bounds().gradient_roof(backend == "native8", threads, ROOF_S)
    rates = {"conv": None if forward is None else forward[1], "conv gradients": gradients}
    return {name: rate for name, rate in rates.items() if rate is not None}


@contextmanager
def without_marks() -> Iterator[None]:
    """Leaves out the lines that PyTorch's profiler writes about itself; their log level is above that of its errors."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            written.seek(0)
            for line in written:
                if not line.startswith(b"USDT:"):
                    os.write(2, line)


def _torch_rows(seen: Any) -> list[dict[str, Any]]:
    """The time that each operator of autograd took itself; the native blocks have rows of their own."""
    return [
        {
            "layer": "native" if event.key.startswith(_NATIVE) else "PyTorch",
            "operator": event.key,
            "ms": event.self_cpu_time_total / 1e3,
            "macs": None,
        }
        for event in seen.key_averages()
        if not event.key.startswith("block") and event.self_cpu_time_total > 0
    ]


def _finished(row: dict[str, Any], total_ms: float, roof: float | None) -> dict[str, Any]:
    gmacs = row["macs"] / row["ms"] / 1e6 if row["macs"] and row["ms"] else None
    of_roof = gmacs / roof if gmacs and roof else None
    return {**row, "share": row["ms"] / total_ms, "gmacs_per_s": gmacs, "roof_share": of_roof}
