"""The experiments by name, and the one way all of them run: queue, tables, pictures, result.json."""

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ftbnn.data import SOURCES, Source, Spec, load
from ftbnn.errors import UserError, unknown
from ftbnn.experiments.names import EXPERIMENTS
from ftbnn.experiments.queue import Queue, Record, Request, machine_of, written
from ftbnn.experiments.result import write
from ftbnn.experiments.scales import SCALES
from ftbnn.training.run import environment


def _experiment(name: str) -> ModuleType:
    """The experiment's file: TITLE, ABOUT, `jobs` and `show`; `measure` where it measures what it trained, and LABELS
    where its tables call variants otherwise."""
    return import_module(f"ftbnn.experiments.{name}")


STANDARD = "standard"


def default_out(what: str, scale: str) -> Path:
    return Path("results") / (what if scale == STANDARD else f"{what}-{scale}")


def request_for(
    what: str,
    *,
    scale: str | None = None,
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
    show: bool = False,
    quiet: bool = False,
) -> Request:
    """Fills in what the scale says. `settings` are of the recipe, for every run; `only` are patterns of variants;
    `alone` takes no runs from the folders beside `out`. To `show` a result, which trains nothing, what is not said is
    as in that result, and images are not needed."""
    if what not in EXPERIMENTS:
        raise unknown("experiment", what, EXPERIMENTS)
    out = out or default_out(what, scale or STANDARD)
    before = written(out, what) if show else {}
    scale = scale or before.get("scale", STANDARD)
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    usual = _of_scale(what, scale) | before
    settings = before.get("settings", {}) | (settings or {})
    epochs = settings.pop("epochs", str(usual["epochs"]))
    if not epochs.isdigit() or int(epochs) < 1:
        raise UserError(f"epochs must be a number of 1 or more, not {epochs}")
    for name, number in (("seeds", seeds), ("width", width), ("budget", budget_m)):
        if number is not None and number <= 0:
            raise UserError(f"{name} must be more than 0, not {number:g}")
    if what == "table4" and width is not None:
        raise UserError("table4 finds the widths that fit into a budget: give the budget in the place of a width")
    if what != "table4" and budget_m is not None:
        raise UserError(f"a budget is for table4; {what} takes a width")
    if data is None and not before:
        image_size = image_size or usual["image_size"]
    return Request(
        what=what,
        scale=scale,
        out=out,
        source=_source(data or usual["data"], data_dir, image_size, before.get("runs", ())),
        width=width or usual["width"],
        epochs=int(epochs),
        seeds=seeds or usual["seeds"],
        budget_m=budget_m or usual["budget_m"],
        settings=settings,
        only=tuple(only) or _only(before),
        keep=keep or show,
        alone=alone or usual["alone"],
        show=show,
        quiet=quiet,
    )


def _of_scale(what: str, name: str) -> dict[str, Any]:
    """What a scale says of an experiment, by the names that result.json has for it."""
    scale = SCALES[name]
    values = {"data": scale.data, "width": scale.width, "epochs": scale.epochs, "seeds": scale.seeds}
    if what == "figure2":
        values = {"data": scale.toy_data, "width": scale.toy_width}
        values |= {"epochs": scale.toy_epochs, "seeds": scale.toy_seeds}
    if what == "table4":
        values["data"] = scale.derived_data
    image_size = scale.image_size if what == "table4" else None
    return {**values, "image_size": image_size, "budget_m": scale.budget_m, "alone": False}


def _source(data: str, data_dir: Path | None, image_size: int | None, shown: Sequence[Record]) -> Source:
    """The data set; where its files are not at hand, what a run on it that is to be shown tells of it."""
    run = next((run for run in shown if run["data"] == data), None)
    if run is not None and image_size in (None, run["image_size"]):
        if data_dir is None and SOURCES[data].needs_dir:
            return _described(run)
        image_size = run["image_size"]
    return load(data, data_dir, image_size=image_size)


@dataclass(frozen=True)
class _Absent:
    """A split of which only the size is known."""

    data: str
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> NoReturn:
        raise UserError(f"there are runs to be measured on the images of {self.data}: say where they are (data_dir)")


def _described(run: Record) -> Source:
    made = run["made_of"]["settings"]
    spec = Spec(run["data"], made["classes"], made["in_channels"], run["image_size"], (), (), ())
    test = _Absent(run["data"], run["test_images"]) if run["test_images"] else None
    return Source(spec, _Absent(run["data"], run["train_images"]), test)


def queue_of(request: Request) -> Queue:
    """The runs of a request, and what is there of them."""
    experiment = _experiment(request.what)
    return Queue(experiment.jobs(request), request, getattr(experiment, "LABELS", {}))


def reproduce(request: Request) -> dict[str, Any]:
    """Runs what is missing, unless it is only to be shown; result.json and the pictures are written anew after every
    run. Returns the result."""
    experiment, queue = _experiment(request.what), queue_of(request)
    result: dict[str, Any] = {}

    def after(records: Sequence[Record]) -> None:
        planned = {job.name for job in queue.asked} | {record["name"] for record in records}
        facts = _facts(request, records, len(planned))
        result.update(write(request.out, facts, experiment.show(request, records), records))

    if request.show:
        done = queue.show(after)
        if done and not request.quiet:
            print(f"{request.what}: {queue.told(done)}", file=sys.stderr)
    else:
        queue.work(after, getattr(experiment, "measure", None))
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
        "alone": request.alone,
        **({"budget_m": request.budget_m} if request.what == "table4" else {}),
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
    usual = _of_scale(request.what, request.scale)
    if request.width != usual["width"]:
        words += ["--width", str(request.width)]
    if SOURCES[request.data].image_size is None:
        words += ["--image-size", str(request.spec.image_size)]
    if request.what == "table4" and request.budget_m != usual["budget_m"]:
        words += ["--budget", f"{request.budget_m:g}"]
    changed = ({"epochs": str(request.epochs)} if request.epochs != usual["epochs"] else {}) | request.settings
    words += [word for key, value in changed.items() for word in ("--set", f"{key}={value}")]
    words += ["--alone"] if request.alone else []
    words += ["--only", *request.only] if request.only else []
    return shlex.join(words)


def _only(result: dict[str, Any]) -> tuple[str, ...]:
    """The variants that a result was asked for with: its command ends with them."""
    return tuple(shlex.split(result.get("command", "").partition(" --only ")[2]))
