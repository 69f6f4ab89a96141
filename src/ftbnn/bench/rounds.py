"""Fair turns: the contenders run one after the other, round after round, so that a slow moment meets all alike.

A turn begins with a pause, in which threads that the last contender left spinning go to sleep, and with one call that
is not timed, which wakes the contender's own threads and fills the caches. Every engine keeps its own default of
spinning or sleeping within its turn: that is how a user would run it.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

PAUSE_S = 0.02  # idle OpenMP, ONNX Runtime and our own threads spin for up to about 10 ms
TURN_S = 0.05  # a turn goes on for that long ...
TURN_CALLS = 20  # ... or for so many calls


@dataclass(frozen=True)
class Contender:
    """One engine with one network, ready to run: `call` takes a batch of images to scores."""

    name: str
    engine: str
    precision: str
    isa: str
    threads: int
    batch: int
    call: Callable[[], Any]


Maker = Callable[[], Contender]


def turn(call: Callable[[], Any]) -> list[float]:
    """Seconds of each call."""
    time.sleep(PAUSE_S)
    call()
    taken: list[float] = []
    while len(taken) < TURN_CALLS and sum(taken) < TURN_S:
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return taken


def interleave(contenders: Sequence[Contender], *, rounds: int) -> list[dict[str, Any]]:
    """A row for each contender, after a round that is not timed."""
    times: list[list[float]] = [[] for _ in contenders]
    with progress_bar((rounds + 1) * len(contenders)) as bar:
        for number in range(rounds + 1):
            for contender, taken in zip(contenders, times, strict=True):
                seconds = turn(contender.call)
                if number:
                    taken.extend(seconds)
                bar.update()
    return [_row(contender, taken) for contender, taken in zip(contenders, times, strict=True)]


def progress_bar(turns: int) -> "tqdm[None]":
    """Turns done and time left, on a terminal's standard error; nothing elsewhere."""
    return tqdm(total=turns, unit="turn", disable=None, leave=False, dynamic_ncols=True)


def _row(contender: Contender, taken: Sequence[float]) -> dict[str, Any]:
    median = statistics.median(taken)
    return {
        "name": contender.name,
        "engine": contender.engine,
        "precision": contender.precision,
        "isa": contender.isa,
        "threads": contender.threads,
        "batch": contender.batch,
        "median_ms": 1e3 * median,
        "min_ms": 1e3 * min(taken),
        "images_per_s": contender.batch / median,
    }
