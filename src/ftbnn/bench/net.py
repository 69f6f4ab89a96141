"""Whole networks: ours beside what a user could run instead, in one run, in fair turns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ftbnn.bench import peers
from ftbnn.bench.ours import contender, first_answer_ms, isas_of
from ftbnn.bench.peers.resnet18 import ResNet18
from ftbnn.bench.rounds import Contender, Maker, interleave
from ftbnn.bench.subject import Subject, open_subject
from ftbnn.errors import UserError

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

    def check(self) -> None:
        peers.check(list(self.peers))
        for what, numbers in (("threads", self.threads), ("batch", self.batches), ("rounds", (self.rounds,))):
            if not numbers or min(numbers) < 1:
                raise UserError(f"--{what} must be 1 or more")
        if max(self.threads) > 1024 or max(self.batches) > 4096:
            raise UserError("--threads goes up to 1024 and --batch up to 4096")


def compare(what: Comparison, say: Say) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(a row for each contender, the summary of each network by name)."""
    what.check()
    isas = isas_of(what.isas)
    say = _once(say)
    with TemporaryDirectory() as folder:
        subjects = [
            open_subject(name, Path(folder), image_size=what.image_size, width=what.width) for name in what.names
        ]
        if len({subject.input_shape for subject in subjects}) > 1:
            raise UserError("the networks take images of different shapes; measure them one by one")
        resnet = ResNet18(subjects[0], Path(folder))
        rows = []
        for batch in what.batches:
            images = np.random.default_rng(0).standard_normal((batch, *subjects[0].input_shape), np.float32)
            made: list[Contender] = []
            for threads in what.threads:
                made += [contender(subject, isa, threads, images) for subject in subjects for isa in isas]
                for name, makers in _others(what.peers, say):
                    made += _make(name, makers(subjects, resnet, threads, images), say)
            say(f"batch {batch}: {len(made)} contenders")
            rows += interleave(made, rounds=what.rounds, progress=say)
        return rows, {subject.name: _summary(subject, isas, rows) for subject in subjects}


def _once(say: Say) -> Say:
    """Says the same only once: a reason why a row is missing holds for every batch and number of threads."""
    said: set[str] = set()

    def speak(line: str) -> None:
        if line not in said or line.startswith("round"):
            said.add(line)
            say(line)

    return speak


def _others(names: Sequence[str], say: Say) -> Iterator[tuple[str, Callable[..., Iterator[Maker]]]]:
    """(name, its function that gives the makers of contenders) of the peers that are installed."""
    for name in names:
        peer = peers.load(name)
        if peer is None:
            say(f"{name} is left out: it is not installed (pip install 'ftbnn[experiments]')")
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


def _summary(subject: Subject, isas: Sequence[str], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the rows say, by ISA: how many times faster than the best of each kind, and the file's figures."""
    return {
        "random_weights": subject.has_random_weights,
        "size_bytes": subject.size_bytes,
        "fp32_bytes": subject.fp32_bytes,
        "minimum_bytes": subject.minimum_bytes,
        "isas": {
            isa: {
                "first_answer_ms": first_answer_ms(subject, isa),
                "faster_than": _ratios(subject, isa, rows),
                "threads_2_over_1": _scaling(subject, isa, rows),
            }
            for isa in isas
        },
    }


def _ours(subject: Subject, isa: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    wanted = {"name": subject.name, "engine": "ftbnn", "isa": isa}
    return [row for row in rows if wanted.items() <= row.items()]


def _ratios(subject: Subject, isa: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each cell of threads and batch, against the fastest engine of each precision."""
    found = []
    for own in _ours(subject, isa, rows):
        cell = [row for row in rows if (row["threads"], row["batch"]) == (own["threads"], own["batch"])]
        for precision in ("fp32", "int8", "binary"):
            others = [
                row
                for row in cell
                if row["engine"] != "ftbnn"
                and row["precision"] == precision
                and (precision != "binary" or row["name"] == subject.name)
            ]
            if not others:
                continue
            best = min(others, key=lambda row: row["median_ms"])
            found.append(
                {
                    "threads": own["threads"],
                    "batch": own["batch"],
                    "precision": precision,
                    "engine": best["engine"],
                    "by_median": best["median_ms"] / own["median_ms"],
                    "by_min": min(row["min_ms"] for row in others) / own["min_ms"],
                }
            )
    return found


def _scaling(subject: Subject, isa: str, rows: Sequence[dict[str, Any]]) -> dict[int, float]:
    """Speed of two threads over one, by batch."""
    times = {(row["batch"], row["threads"]): row["median_ms"] for row in _ours(subject, isa, rows)}
    return {
        batch: one / times[batch, 2] for (batch, threads), one in times.items() if threads == 1 and (batch, 2) in times
    }
