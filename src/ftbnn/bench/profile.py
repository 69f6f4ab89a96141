"""Where the time of one native training step goes: the phases of every block, and what is left to PyTorch."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch.profiler import ProfilerActivity, profile

from ftbnn import _native
from ftbnn.bench.train import WARM_UP, Case, check_rounds
from ftbnn.nn.layer import layers
from ftbnn.nn.native import require
from ftbnn.nn.native.block import listening

_NATIVE = ("norm", "_Average", "_Repeat")  # operators of ours that are no blocks
_ROOF_SHAPE = (4, 16, 16, 64, 64, 3, 3, 1, 1, 1, 1, 1)  # any: the roof does not depend on it


def profile_step(
    case: Case, backend: Literal["native", "native8"] = "native", *, rounds: int = 5
) -> list[dict[str, Any]]:
    """Rows of the fastest of `rounds` steps: layer, operator, ms, share of the step, GMAC/s and share of the roof.

    The roofs, of forward and of the gradients, are loops of nothing but their multiplications, measured beside.
    """
    check_rounds(rounds)
    require(backend)
    roofs = _roofs(case.threads, backend)  # before PyTorch has threads: they would spin on the cores that this measures
    torch.set_num_threads(case.threads)
    network, step = case.training(backend)
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

    best: tuple[float, list[dict[str, Any]]] = (float("inf"), [])
    with listening(listen):
        for turn in range(WARM_UP + rounds):
            rows = []
            seen = profile(activities=[ProfilerActivity.CPU])
            with without_marks():
                seen.start()
            try:
                started = time.perf_counter()
                step()
                taken = time.perf_counter() - started
            finally:
                with without_marks():
                    seen.stop()
            if turn >= WARM_UP and taken < best[0]:
                best = taken, rows + _torch_rows(seen)
    total, found = best
    slowest_first = sorted(found, key=lambda row: -row["ms"])
    return [_finished(row, 1e3 * total, roofs.get(row["operator"])) for row in slowest_first]


def _roofs(threads: int, backend: str) -> dict[str, float]:
    """GMAC/s by operator, of all threads."""
    timing = _native.training.time_gradients(backend == "native8", _ROOF_SHAPE, threads, 10)
    roofs = {"conv gradients": timing[3]}
    forward = _native.bench.roof(_native.capabilities()["isa"], True)
    if forward is not None:
        roofs["conv"] = threads * forward[1]
    return roofs


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
    return {**row, "share": row["ms"] / total_ms, "gmacs_per_s": gmacs, "roof_share": of_roof, "step_ms": total_ms}
