"""The experiments by name, and the one way all of them run: queue, tables, pictures, result.json."""

import shlex
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ftbnn.data import SOURCES, load
from ftbnn.errors import UserError, unknown
from ftbnn.experiments.names import EXPERIMENTS
from ftbnn.experiments.queue import Queue, Record, Request, machine_of
from ftbnn.experiments.result import write
from ftbnn.experiments.scales import SCALES
from ftbnn.training.run import environment


def _experiment(name: str) -> ModuleType:
    """The experiment's file: TITLE, ABOUT, `jobs` and `show`; `measure` where it measures what it trained, and LABELS
    where its tables call variants otherwise."""
    return import_module(f"ftbnn.experiments.{name}")


def default_out(what: str, scale: str) -> Path:
    return Path("results") / (what if scale == "standard" else f"{what}-{scale}")


def request_for(
    what: str,
    *,
    scale: str = "standard",
    out: Path | None = None,
    data: str | None = None,
    data_dir: Path | None = None,
    seeds: int | None = None,
    width: int | None = None,
    budget_m: float | None = None,
    image_size: int | None = None,
    settings: dict[str, str] | None = None,
    only: Sequence[str] = (),
    keep: bool = False,
    alone: bool = False,
    quiet: bool = False,
) -> Request:
    """Fills in what the scale says. `settings` are of the recipe, for every run; `only` are patterns of variants;
    `alone` takes no runs from the folders beside `out`."""
    if what not in EXPERIMENTS:
        raise unknown("experiment", what, EXPERIMENTS)
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    size, toy, settings = SCALES[scale], what == "figure2", dict(settings or {})
    epochs = settings.pop("epochs", str(size.toy_epochs if toy else size.epochs))
    if not epochs.isdigit() or int(epochs) < 1:
        raise UserError(f"epochs must be a number of 1 or more, not {epochs}")
    for name, number in (("seeds", seeds), ("width", width), ("budget", budget_m)):
        if number is not None and number <= 0:
            raise UserError(f"{name} must be more than 0, not {number:g}")
    if what == "table4" and width is not None:
        raise UserError("table4 finds the widths that fit into a budget: give the budget in the place of a width")
    if what != "table4" and budget_m is not None:
        raise UserError(f"a budget is for table4; {what} takes a width")
    usual = size.toy_data if toy else size.derived_data if what == "table4" else size.data
    if data is None and what == "table4":
        image_size = image_size or size.image_size
    return Request(
        what=what,
        scale=scale,
        out=out or default_out(what, scale),
        source=load(data or usual, data_dir, image_size=image_size),
        width=width or (size.toy_width if toy else size.width),
        epochs=int(epochs),
        seeds=seeds or (size.toy_seeds if toy else size.seeds),
        budget_m=budget_m or size.budget_m,
        settings=settings,
        only=tuple(only),
        keep=keep,
        alone=alone,
        quiet=quiet,
    )


def queue_of(request: Request) -> Queue:
    """The runs of a request, and what is there of them."""
    experiment = _experiment(request.what)
    return Queue(experiment.jobs(request), request, getattr(experiment, "LABELS", {}))


def reproduce(request: Request, *, train: bool = True) -> dict[str, Any]:
    """Runs what is missing; result.json and the pictures are written anew after every run. Returns the result.

    Without `train` it is the result of the runs that are there.
    """
    experiment, queue = _experiment(request.what), queue_of(request)
    result: dict[str, Any] = {}

    def after(records: Sequence[Record]) -> None:
        planned = {job.name for job in queue.asked} | {record["name"] for record in records}
        facts = _facts(request, records, len(planned))
        result.update(write(request.out, facts, experiment.show(request, records), records))

    if train:
        queue.work(after, getattr(experiment, "measure", None))
    else:
        queue.show(after)
    return result


def _facts(request: Request, records: Sequence[Record], planned: int) -> dict[str, Any]:
    experiment = _experiment(request.what)
    return {
        "what": request.what,
        "title": experiment.TITLE,
        "about": experiment.ABOUT,
        "scale": request.scale,
        "scale_about": SCALES[request.scale].about,
        "data": request.data,
        "width": request.width,
        "epochs": request.epochs,
        "seeds": request.seeds,
        "settings": request.settings,
        "command": _command(request),
        "runs_finished": len(records),
        "runs_planned": planned,
        "train_seconds": sum(record["train_seconds"] for record in records),
        "machine": records[0]["environment"] if records else machine_of(environment()),
        "written": time.strftime("%Y-%m-%d"),
    }


def _command(request: Request) -> str:
    """How to make this result again, beside the one that is there. Where the data lie is everyone's own affair: DIR."""
    words = ["ftbnn", "reproduce", request.what, "--out", f"my/{request.what}", "--scale", request.scale]
    words += [] if request.what == "deploy" else ["--seeds", str(request.seeds)]
    words += ["--data", request.data, *(["--data-dir", "DIR"] if SOURCES[request.data].needs_dir else [])]
    size = SCALES[request.scale]
    if request.width != (size.toy_width if request.what == "figure2" else size.width):
        words += ["--width", str(request.width)]
    if SOURCES[request.data].image_size is None:
        words += ["--image-size", str(request.spec.image_size)]
    if request.what == "table4" and request.budget_m != size.budget_m:
        words += ["--budget", f"{request.budget_m:g}"]
    usual = size.toy_epochs if request.what == "figure2" else size.epochs
    changed = ({"epochs": str(request.epochs)} if request.epochs != usual else {}) | request.settings
    words += [word for key, value in changed.items() for word in ("--set", f"{key}={value}")]
    words += ["--alone"] if request.alone else []
    words += ["--only", *request.only] if request.only else []
    return shlex.join(words)
