"""Runs one after the other: finished ones are skipped, an interrupted one resumes, and it may be killed at any point.

Several processes may be at work in one folder: each takes the next run that nobody has, and all end with the whole.

OUT/runs/NAME/              a run directory of the library (several, of a multi-step recipe)
OUT/runs/NAME/outcome.json  written last: what came of the run, as it will stand in result.json
OUT/.locks/NAME             held by the process that makes the run
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ftbnn.data import Source, Spec
from ftbnn.errors import Stopped, UserError
from ftbnn.experiments.result import FILE, LAST_ON_TEST, read
from ftbnn.files import locked, write_atomically
from ftbnn.json_text import dumps, rounded
from ftbnn.training import Options, Recipe, Steps
from ftbnn.training.curves import best_top1, epochs_by_step
from ftbnn.training.diagnose import Diverged
from ftbnn.training.progress import Progress
from ftbnn.training.recipes import for_data
from ftbnn.training.run import RunDir
from ftbnn.training.signals import StopSignals
from ftbnn.workflows.train import Plan, plan, train

OUTCOME = "outcome.json"
POLL_S = 1.0
SCORES = ("train_loss", "train_top1", "val_loss", "val_top1", "val_top5")
ENVIRONMENT = ("python", "platform", "versions", "cpu", "isa", "threads", "cores", "cuda")  # no command: it has paths

Record = dict[str, Any]
Measure = Callable[[Path, Source], dict[str, Any]]  # of a finished run


@dataclass(frozen=True)
class Request:
    """What `ftbnn reproduce` was asked for."""

    what: str
    scale: str
    out: Path
    source: Source
    width: int
    epochs: int
    seeds: int
    budget_m: float
    settings: dict[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()  # patterns of the variants to train; none: all
    keep: bool = False
    alone: bool = False
    show: bool = False  # train nothing
    quiet: bool = False

    @property
    def spec(self) -> Spec:
        assert self.source.spec is not None  # experiments take data sets by name
        return self.source.spec

    @property
    def data(self) -> str:
        return self.spec.name

    def finished(self, name: str = "*") -> list[Path]:
        """The finished runs of that name: this folder's, then, unless it is to stand `alone`, those of its siblings."""
        own = sorted(self.out.glob(f"runs/{name}/{OUTCOME}"))
        beside = [] if self.alone else sorted(self.out.parent.glob(f"*/runs/{name}/{OUTCOME}"))
        return [file.parent for file in dict.fromkeys([*own, *beside])]


@dataclass(frozen=True)
class Job:
    """A run to be made. Jobs of one `variant` differ in the seed alone."""

    variant: str
    model: str
    seed: int
    width: int | None
    family: str = "naive"  # of recipes; the data set chooses its size
    settings: dict[str, str] = field(default_factory=dict)
    teacher: str = ""  # the name of another job, which must stand before this one
    method: str | None = None  # that makes the model binary, if not its own

    @property
    def name(self) -> str:
        return f"{self.variant}-seed{self.seed}"


class Queue:
    """The jobs of one experiment and the directory they are done in. What is not `asked` for counts if it is there;
    `labels` are what tables call a variant, which may be asked for by that name too."""

    def __init__(self, jobs: Sequence[Job], request: Request, labels: Mapping[str, str]) -> None:
        self.jobs, self.request = jobs, request
        self.asked = _asked(jobs, request.only, labels)
        self.plans = {job.name: self._plan(job) for job in jobs}
        self.found: dict[str, Path | None] = {}  # where a finished run lies; None: in result.json alone

    def work(
        self,
        after: Callable[[list[Record]], None],
        measure: Measure | None = None,
    ) -> None:
        """Does what is to be done; `after` gets the records of all finished runs, at first and after each run."""
        done = self.show(after) if self._finished() else {}
        there = self._of_asked(done)
        bar = Progress(len(self.asked), there, quiet=self.request.quiet, unit="run")
        try:
            if there:
                bar.say(f"{self.request.what}: {self.told(done)}")
            while self._of_asked(done) < len(self.asked):
                with StopSignals() as stop:
                    found_one = self._do_next(done, measure, bar)
                if stop.received:
                    raise Stopped(stop.received, f"{self.request.what}, between two runs", again="the same command")
                if not found_one:
                    bar.advance(0, f"{self.request.what}, waiting for another process")
                    time.sleep(POLL_S)
                before, done = done, self._finished()
                if len(done) > len(before):
                    bar.advance(self._of_asked(done) - self._of_asked(before), self.request.what)
                    done = self.show(after)
        finally:
            bar.close()

    def show(self, after: Callable[[list[Record]], None]) -> dict[str, Record]:
        """Hands over the records of all finished runs, and returns them by name."""
        records = self._finished()
        with locked(self.request.out / ".locks" / "result"):
            after(list(records.values()))
        return records

    def told(self, done: dict[str, Record]) -> str:
        """How many runs are there, and from which other folders."""
        there = self._of_asked(done)
        places = [self.found[job.name] for job in self.asked if job.name in done]
        folders = [place.parent.parent for place in places if place is not None]
        others = [str(folder) for folder in folders if folder != self.request.out]
        share = "" if len(others) == there else f"{len(others)} of them "
        source = f", {share}from {' and '.join(dict.fromkeys(others))}" if others else ""
        return f"{there} of {len(self.asked)} runs are there already{source}"

    def _of_asked(self, done: dict[str, Record]) -> int:
        return sum(job.name in done for job in self.asked)

    def _do_next(self, done: dict[str, Record], measure: Measure | None, bar: Progress) -> bool:
        """Makes the first run that nobody has; False if other processes are at work on all that is left."""
        for job in self.asked:
            if job.name in done or (job.teacher and job.teacher not in done):
                continue
            with locked(self.request.out / ".locks" / job.name, wait=False) as is_ours:
                if not is_ours:
                    continue
                if job.name not in self._finished():
                    bar.advance(0, self.request.what)
                    bar.say(f"{self.request.what} [{self._of_asked(done) + 1}/{len(self.asked)}] {job.name}")
                    self._do(job, measure)
                return True
        return False

    def _plan(self, job: Job) -> Plan:
        return plan(
            job.model,
            self.request.data,
            source=self.request.source,
            recipe=for_data(job.family, self.request.data),
            settings={"epochs": str(self.request.epochs), **self.request.settings, **job.settings},
            out=self.request.out / "runs" / job.name,
            width=job.width,
            method=job.method,
        )

    def _finished(self) -> dict[str, Record]:
        """The records of the jobs that are done: here, in a sibling's runs, or (`keep`) in result.json alone."""
        records = {}
        kept = {record["name"]: record for record in written(self.request.out, self.request.what).get("runs", [])}
        for job in self.jobs:
            for place in self.request.finished(job.name):
                record = upgraded(json.loads((place / OUTCOME).read_text()))
                difference = self._difference(job, record)
                if not difference:
                    records[job.name], self.found[job.name] = record, place
                    break
                if place.parent.parent == self.request.out:
                    raise UserError(f"{place} was made otherwise ({difference}); choose another folder")
            if job.name in kept and job.name not in records:
                if not self.request.keep:
                    raise UserError(
                        f"{self.request.out / FILE} tells of the run {job.name}, which is not here: choose another "
                        "folder to make it anew, or keep what is written (keep) to count it as done"
                    )
                if difference := self._difference(job, kept[job.name]):
                    raise UserError(f"{job.name} was made otherwise ({difference}); choose another folder")
                records[job.name], self.found[job.name] = kept[job.name], None
        for name in kept.keys() - {job.name for job in self.jobs}:
            if not self.request.finished(name):
                raise UserError(
                    f"{self.request.out / FILE} tells of the run {name}, which is not here and not asked for: it would "
                    "be lost; ask for as many seeds as it has, or choose another folder"
                )
        return records

    def _difference(self, job: Job, record: Record) -> str:
        """How a record's run is another one than the job's, in a few words; empty if it is the same."""
        wanted = self.plans[job.name]
        here = {"data": self.request.data, "seed": job.seed, "teacher": job.teacher} | _images(self.request.source)
        mine, theirs = asdict(wanted.model) | here, record["made_of"] | {key: record.get(key) for key in here}
        words = [f"{key}: {theirs[key]} -> {mine[key]}" for key in mine if theirs[key] != mine[key]]
        before, now = [Recipe.from_json(recipe) for recipe in record["recipes"]], _recipes(wanted.recipe)
        if len(before) != len(now):
            return "; ".join([*words, f"{len(before)} -> {len(now)} steps"])
        return "; ".join([*words, *(word for a, b in zip(now, before, strict=True) for word in a.difference(b))])

    def _do(self, job: Job, measure: Measure | None) -> None:
        wanted = self.plans[job.name]
        divergence = ""
        options = Options(seed=job.seed, resume=RunDir(wanted.out).has_run, quiet=self.request.quiet)
        try:
            train(wanted, options, teacher=self._teacher(job))
        except Diverged as error:
            divergence = error.what
        except Stopped as stopped:
            raise Stopped(stopped.signal, f"{job.name}, {stopped.where}", again="the same command") from None
        record = _record(job, wanted, self.request, divergence)
        if measure is not None and not divergence:
            record["measured"] = rounded(measure(wanted.out, self.request.source))
        write_atomically(wanted.out / OUTCOME, (dumps(record) + "\n").encode())

    def _teacher(self, job: Job) -> Path | None:
        if not job.teacher:
            return None
        place = self.found.get(job.teacher)
        if place is None:
            raise UserError(f"{job.name} learns from {job.teacher}, whose weights are not here; choose another folder")
        return place


def _asked(jobs: Sequence[Job], patterns: Sequence[str], labels: Mapping[str, str]) -> list[Job]:
    """The jobs whose variant one of the patterns is of, and those they learn from; without patterns all."""

    def is_called(job: Job, pattern: str) -> bool:
        return any(fnmatchcase(name, pattern) for name in (job.variant, labels.get(job.variant, job.variant)))

    for pattern in patterns:
        if not any(is_called(job, pattern) for job in jobs):
            variants = ", ".join(dict.fromkeys(job.variant for job in jobs))
            raise UserError(f"no variant is called {pattern!r}; there are {variants}")
    wanted = [job for job in jobs if not patterns or any(is_called(job, pattern) for pattern in patterns)]
    teachers = {job.teacher for job in wanted}
    return [job for job in jobs if job in wanted or job.name in teachers]


def written(folder: Path, what: str) -> Record:
    """The result that a folder holds of this experiment; empty if it holds none."""
    if not (folder / FILE).exists():
        return {}
    before = read(folder)
    if before["what"] != what:
        raise UserError(f"{folder} holds the result of {before['what']}; choose another folder")
    return before | {"runs": [upgraded(record) for record in before["runs"]]}


def _recipes(recipe: Recipe | Steps) -> tuple[Recipe, ...]:
    return recipe.steps if isinstance(recipe, Steps) else (recipe,)


def _record(job: Job, done: Plan, request: Request, divergence: str) -> Record:
    """What came of a run, from its directory."""
    steps = epochs_by_step(done.out)
    rows = [row for step in steps for row in step]
    last, scores = rows[-1] if rows else {}, RunDir(done.out).last_step.scores()
    top1, top5 = (None if divergence else rounded(scores.get(f"test_{key}")) for key in ("top1", "top5"))
    return {
        "name": job.name,
        "variant": job.variant,
        "state": "diverged" if divergence else "finished",
        "divergence": divergence,
        "seed": job.seed,
        "data": request.data,
        **_images(request.source),
        "teacher": job.teacher,
        "top1": top1,
        "top5": top5,
        "train_top1": None if divergence else rounded(last["train_top1"]),
        "best_top1": rounded(best_top1(steps)),
        "chosen": scores.get("chosen"),
        "train_seconds": rounded(sum(_seconds(row, request.source) for row in rows)),
        "images_per_s": rounded(last.get("images_per_s")),
        "made_of": asdict(done.model),
        "recipes": [recipe.to_json() for recipe in _recipes(done.recipe)],
        "epochs": [{key: rounded(row[key]) for key in SCORES if key in row} for row in rows],
        "records": rounded(last.get("records", {})),
        **trained_with(done.out),
    }


def upgraded(record: Record) -> Record:
    """A record with today's names for what older ones called otherwise, and marked as what those were."""
    names = {"story": "divergence", "slopes": "records"}
    measured = record.get("measured", {})
    if isinstance(measured.get("discrepancy"), float):  # of outputs, the one reading there was
        apart = {key: {"outputs": measured[key]} for key in ("discrepancy", "discrepancy_per_layer")}
        record = record | {"measured": measured | apart}
    if "chosen" not in record:
        names["val_images"] = "test_images"
        record = record | {"chosen": LAST_ON_TEST}
    return {names.get(key, key): value for key, value in record.items()}


def _seconds(epoch: Record, source: Source) -> float:
    """By its pace: the seconds of an epoch that was resumed are those since then. Resumed at its end it has none."""
    return len(source.train) / epoch["images_per_s"] if epoch["images_per_s"] else 0.0


def trained_with(run: Path) -> Record:
    """What a run's directory says it was trained with: the backend of each step, the machine, and all commits."""
    steps = RunDir(run).steps or [RunDir(run)]
    kept = [step.read_json("run.json") for step in steps]
    places = [place for one in kept for place in (one["environment"], *one.get("resumed", []))]
    return {
        "backends": [step.recipe().backend for step in steps],
        "commits": list(dict.fromkeys(place.get("commit") for place in places)),
        "environment": machine_of(places[0]),
    }


def machine_of(place: dict[str, Any]) -> dict[str, Any]:
    """What a result may depend on beside the recipe, for people."""
    return {key: place.get(key) for key in ENVIRONMENT}


def _images(source: Source) -> dict[str, int]:
    """What tells two data sets of one name apart: folders of somebody's own, and sizes of their images."""
    assert source.spec is not None
    tests = 0 if source.test is None else len(source.test)
    return {"image_size": source.spec.image_size, "train_images": len(source.train), "test_images": tests}
