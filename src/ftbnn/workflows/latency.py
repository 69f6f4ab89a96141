"""Derived networks by milliseconds on this machine: as predicted from the table of costs, and as measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from ftbnn.bench.rounds import progress_bar
from ftbnn.errors import UserError
from ftbnn.models.derived import BLOCKS
from ftbnn.workflows.costs import CostTable
from ftbnn.workflows.timing import Shape, engine_of, measured_ms

GROUPS = (1, 3, 5, 8)  # of the paper
SPREAD = 1.3  # a width may be that many times as fast as those beside it say
IMAGENET = (3, 224, 224)
Say = Callable[[str], None]


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True)
class Timed:
    """A derived network's milliseconds, as predicted and as measured."""

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


def check(
    networks: Sequence[tuple[int, int, int]],
    *,
    threads: int = 1,
    shape: Shape = IMAGENET,
    classes: int = 1000,
    folder: Path | None = None,
    say: Say = _silent,
) -> list[Timed]:
    """Predictions for derived networks (layers, groups, v), each beside what the network really takes here."""
    costs = _table(threads, shape, classes, folder, say)
    costs.measure((groups, v) for _, groups, v in networks)
    found = []
    with progress_bar(len(networks)) as bar:
        for network in networks:
            found.append(_timed(costs, *network))
            bar.update()
    return found


def widest_within(
    limit_ms: float,
    *,
    layers: Sequence[int] = tuple(BLOCKS),
    groups: Sequence[int] = GROUPS,
    threads: int = 1,
    shape: Shape = IMAGENET,
    classes: int = 1000,
    folder: Path | None = None,
    say: Say = _silent,
) -> list[Timed]:
    """For each depth and number of groups the widest derived network that runs within so many milliseconds here."""
    if not 0 < limit_ms < inf:
        raise UserError(f"a latency is a number of milliseconds above 0, not {limit_ms:g}")
    for depth in layers:
        if depth not in BLOCKS:
            raise UserError(f"there are derived networks of {', '.join(map(str, BLOCKS))} layers, not of {depth}")
    costs = _table(threads, shape, classes, folder, say)
    costs.survey(groups, up_to=SPREAD * limit_ms, layers=min(layers))
    wanted = [(depth, g) for depth in layers for g in groups]
    found = []
    with progress_bar(len(wanted)) as bar:
        for depth, g in wanted:
            found.append(_widest(costs, depth, g, limit_ms))
            bar.update()
    if not any(found):
        least = min(costs.row(g, costs.widths(g)[0]).total(depth) for depth, g in wanted)
        raise UserError(f"no network runs within {limit_ms:g} ms here: the least reachable is about {least:.2f} ms")
    return [network for network in found if network]


def _table(threads: int, shape: Shape, classes: int, folder: Path | None, say: Say) -> CostTable:
    if threads < 1:
        raise UserError(f"threads must be 1 or more, not {threads}")
    costs = CostTable(threads=threads, shape=shape, classes=classes, folder=folder)
    if costs.is_of_another_machine:
        say(f"the costs in {costs.path} are of another machine or version: they are measured anew")
    return costs


def _timed(costs: CostTable, layers: int, groups: int, v: int) -> Timed:
    predicted = costs.row(groups, v).total(layers)
    model = engine_of(costs.network(layers, groups, v), costs.shape, costs.threads)
    return Timed(layers, groups, v, predicted, measured_ms(model))


def _widest(costs: CostTable, layers: int, groups: int, limit_ms: float) -> Timed | None:
    """From the widest that may be fast enough downwards: by its own row first, then by itself.

    Every fourth width comes first, for those fill bytes and vectors; then the even ones around the first that fits.
    Odd ones without a row are left out: they fill no better than the even ones above them.
    """
    known = costs.widths(groups)
    hopeful = [
        v
        for v in range(known[-1], known[0] - 1, -1)
        if (v % 2 == 0 or v in known) and costs.predict(layers, groups, v) <= SPREAD * limit_ms
    ]

    def fits(v: int) -> bool:
        return costs.row(groups, v).total(layers) <= limit_ms

    first = next((v for v in hopeful if v % 4 == 0 and fits(v)), 4)
    for v in hopeful:
        if v < first + 4 and fits(v):
            network = _timed(costs, layers, groups, v)
            if network.measured_ms <= limit_ms:
                return network
    return None
