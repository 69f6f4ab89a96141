"""Milliseconds of an image in the engine, for all networks of a table: measured once, in turns, and kept.

What a network takes is a matter of its shape, not of its weights, so it needs no run. Times stand in result.json and
stay there with their machine wherever it is shown again: those of a table are of one machine and of one go, or they
could not be compared. Only where a row has none are all of them measured anew, here.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from ftbnn.bench.rounds import Contender, interleave
from ftbnn.experiments.queue import Request
from ftbnn.experiments.result import FILE, Column, read
from ftbnn.json_text import rounded
from ftbnn.machine import capabilities
from ftbnn.workflows.timing import engine_of, random_image

ROUNDS = 12
COLUMN = Column("ms", "ms in the engine", ".3f")

Time = dict[str, Any]  # what a row has of it: `ms`, and `measured_on`


def times(request: Request, table: str, networks: Mapping[str, Callable[[], nn.Module]]) -> dict[str, Time]:
    """Of each network by its name, which is the `method` of its row in that table."""
    spec = request.spec
    shape = (spec.channels, spec.image_size, spec.image_size)
    subject = {"image": list(shape), "classes": spec.classes, "width": request.width}
    kept = _written(request, table, subject)
    if networks.keys() <= kept.keys():
        return {name: kept[name] for name in networks}
    known = capabilities()
    measured_on = {"cpu": known["cpu"], "isa": known["isa"], **subject}
    if kept:
        print(f"{request.what}: there are new rows, so all of them are timed anew, on this machine", file=sys.stderr)
    contenders = [_contender(name, make(), shape) for name, make in networks.items()]
    rows = interleave(contenders, rounds=ROUNDS)
    return {row["name"]: {"ms": rounded(row["min_ms"]), "measured_on": measured_on} for row in rows}


def machines(timed: Mapping[str, Time]) -> str:
    """What a caption says of them."""
    places = dict.fromkeys(f"{one['measured_on']['cpu']}, {one['measured_on']['isa']}" for one in timed.values())
    return "; ".join(places)


def _written(request: Request, table: str, subject: dict[str, Any]) -> dict[str, Time]:
    """Times in result.json of networks of that size."""
    if not (request.out / FILE).exists():
        return {}
    rows = [row for one in read(request.out)["tables"] if one["name"] == table for row in one["rows"]]
    timed = {row["method"]: {key: row[key] for key in ("ms", "measured_on")} for row in rows if row.get("measured_on")}
    return {name: one for name, one in timed.items() if subject.items() <= one["measured_on"].items()}


def _contender(name: str, network: nn.Module, shape: tuple[int, int, int]) -> Contender:
    model = engine_of(network, shape, threads=1)
    image = random_image(model)
    return Contender(name, "ftbnn", "binary", model.isa, 1, 1, lambda: model(image))
