"""Whole networks: ours beside what a user could run instead, in one run, in fair turns."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ftbnn.bench import peers
from ftbnn.bench.ours import contender, first_answer_ms, isas_of
from ftbnn.bench.peers.resnet18 import ResNet18
from ftbnn.bench.pixels import random_images
from ftbnn.bench.rounds import Contender, Maker, interleave
from ftbnn.bench.subject import Subject, open_subject
from ftbnn.errors import UserError
from ftbnn.text import counted

Say = Callable[[str], None]


@dataclass(frozen=True)
class Comparison:
    """What to measure."""

    names: Sequence[str]  # networks by name, run directories or .ftbnn files; all for images of one shape
    threads: Sequence[int] = (1,)
    batches: Sequence[int] = (1,)
    peers: Sequence[str] = tuple(peers.PEERS)
    isas: Sequence[str] = ()  # none: the one in use
    image_size: int | None = None
    width: int | None = None
    rounds: int = 10
    stem_bits: int | None = None
    methods: Sequence[str] = ()  # each network made binary in each of these ways; none: as it is
    is_pixels: bool = False  # images are 8-bit ones, which every engine normalises itself

    def check(self) -> None:
        peers.check(list(self.peers))
        for what, numbers in (("threads", self.threads), ("batch", self.batches), ("rounds", (self.rounds,))):
            if not numbers or min(numbers) < 1:
                raise UserError(f"{what} must be 1 or more")
        if max(self.threads) > 1024 or max(self.batches) > 4096:
            raise UserError("threads go up to 1024 and a batch up to 4096")


@dataclass(frozen=True)
class Result:
    """What was measured: a row for each contender, ours beside the best of each kind, and the files."""

    rows: list[dict[str, Any]]
    ratios: list[dict[str, Any]]
    files: list[dict[str, Any]]


def compare(what: Comparison, say: Say) -> Result:
    what.check()
    isas = isas_of(what.isas)
    say = _once(say)
    with TemporaryDirectory() as folder:
        subjects = _subjects(what, Path(folder))
        if len({subject.input_shape for subject in subjects}) > 1:
            raise UserError("the networks take images of different shapes; measure them one by one")
        resnet = ResNet18(subjects[0], Path(folder))
        rows = []
        for batch in what.batches:
            images = random_images(batch, subjects[0].input_shape, is_pixels=what.is_pixels)
            made: list[Contender] = []
            for threads in what.threads:
                made += [contender(subject, isa, threads, images) for subject in subjects for isa in isas]
                for name, makers in _others(what.peers, say):
                    made += _make(name, makers(subjects, resnet, threads, images), say)
            say(f"batch {batch}: {counted(what.rounds, 'round')} of {counted(len(made), 'contender')}")
            rows += interleave(made, rounds=what.rounds)
        return Result(rows, ratios(rows), [_file(subject, isas) for subject in subjects])


def _subjects(what: Comparison, folder: Path) -> list[Subject]:
    """Each with a folder for its files; two that call themselves the same are called as the user calls them."""
    subjects = []
    settings = {"image_size": what.image_size, "width": what.width, "stem_bits": what.stem_bits}
    wanted = list(itertools.product(dict.fromkeys(what.names), dict.fromkeys(what.methods) or [None]))
    for number, (text, method) in enumerate(wanted):
        own = folder / str(number)
        own.mkdir()
        subjects.append(open_subject(text, own, **settings, method=method))
    if len({subject.name for subject in subjects}) < len(subjects):
        subjects = [replace(subject, name=text) for subject, (text, _) in zip(subjects, wanted, strict=True)]
    return subjects


def _once(say: Say) -> Say:
    """Says the same only once: a reason why a row is missing holds for every batch and number of threads."""
    said: set[str] = set()

    def speak(line: str) -> None:
        if line not in said:
            said.add(line)
            say(line)

    return speak


def _others(names: Sequence[str], say: Say) -> Iterator[tuple[str, Callable[..., Iterator[Maker]]]]:
    """(name, its function that gives the makers of contenders) of the peers that are installed."""
    for name in names:
        peer = peers.load(name)
        if peer is None:
            say(f"{name} is left out: it is not installed (pip install {name})")
        else:
            yield name, peer.contenders


def _make(name: str, makers: Iterator[Maker], say: Say) -> list[Contender]:
    made = []
    for make in makers:
        try:
            made.append(make())
        except UserError as error:
            say(f"{name}: {error}")
    return made


def _file(subject: Subject, isas: Sequence[str]) -> dict[str, Any]:
    return {
        "name": subject.name,
        "random_weights": subject.has_random_weights,
        "size_bytes": subject.size_bytes,
        "minimum_bytes": subject.minimum_bytes,
        "fp32_bytes": subject.fp32_bytes,
        "first_answer_ms": {isa: first_answer_ms(subject, isa) for isa in isas},
    }


def ratios(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each row of ours, how many times as fast it is as the fastest peer of each precision, and as one thread.

    By medians; `_min` by minima. A peer's binary row counts only if it is the same network. Where some peers were held
    to the ISA of ours, those that cannot be held do not count.
    """
    found = []
    for own in rows:
        if own["engine"] != "ftbnn":
            continue
        ratio = {key: own[key] for key in ("name", "isa", "threads", "batch")}
        for precision in ("fp32", "int8", "binary"):
            rivals = held([row for row in rows if _rivals(own, row) and row["precision"] == precision], own)
            if rivals:
                best = min(rivals, key=lambda row: row["median_ms"])
                ratio[precision] = best["median_ms"] / own["median_ms"]
                ratio[f"{precision}_min"] = min(row["min_ms"] for row in rivals) / own["min_ms"]
                ratio[f"{precision}_engine"] = best["engine"]
        one = [row for row in rows if row["threads"] == 1 and all(row[k] == own[k] for k in OURS)]
        if one:
            ratio["one_thread"] = one[0]["median_ms"] / own["median_ms"]
        found.append(ratio)
    return found


def held(rivals: list[dict[str, Any]], own: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that use the same ISA, if there are such."""
    return [row for row in rivals if row["isa"] == own["isa"]] or rivals


OURS = ("name", "engine", "isa", "batch")  # what two rows of ours share that differ in threads


def _rivals(own: dict[str, Any], row: dict[str, Any]) -> bool:
    return (
        row["engine"] != "ftbnn"
        and (row["threads"], row["batch"]) == (own["threads"], own["batch"])
        and (row["precision"] != "binary" or row["name"] == own["name"])
    )
