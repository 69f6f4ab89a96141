"""Derived networks by milliseconds on this machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ftbnn.errors import UserError
from ftbnn.models.derived import BLOCKS
from ftbnn.workflows.costs import CostTable
from ftbnn.workflows.timing import Shape, engine_of, measured_ms

GROUPS = (1, 3, 5, 8)  # of the paper


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
