"""A training step in each formulation: timed interleaved, its memory measured in a process of its own."""

import itertools
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn import _native
from ftbnn.data.batches import Batches
from ftbnn.data.source import ArraySplit, Spec
from ftbnn.errors import UserError
from ftbnn.models import build, find
from ftbnn.nn import Backend, stem_for, use_backend
from ftbnn.nn.layer import lay_out

PHASES = ("data", "forward", "backward", "optimizer")
Phases = dict[str, float]
FORMULATIONS: tuple[Backend, ...] = ("plain", "torch", "native", "native8")
WARM_UP = 2


@dataclass(frozen=True)
class Case:
    """What a step works on. Channels-last and Adam, as the recipes for a CPU have it, for every formulation alike."""

    model: str
    width: int | None
    batch: int
    image_size: int
    classes: int
    threads: int
    method: str | None = None  # that makes the model binary, if not its own

    def __post_init__(self) -> None:
        if min(self.image_size, self.classes, self.threads) < 1 or self.batch < 2:
            raise UserError("image size, classes and threads must be 1 or more, and the batch 2: BatchNorm needs it")

    def training(self, formulation: Backend, *, loads: bool = False) -> tuple[nn.Module, Callable[[], Phases]]:
        """A network and a function that trains it for one step, which says the seconds of each phase; equal weights and
        data for every formulation. The images are always the same, or, `loads`, views of images in memory."""
        torch.manual_seed(0)
        entry = find(self.model)
        stem = stem_for(self.image_size) if entry.has_stems else None
        size = {"method": self.method, "image_size": self.image_size} if self.method is not None else {}
        network = build(self.model, classes=self.classes, width=self.width, stem=stem, **size)  # type: ignore[arg-type]
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if formulation.startswith("native"):
            lay_out(network)
        batches = self._batches(entry.in_channels) if loads else self._same_images(entry.in_channels)
        fused = True if formulation.startswith("native") else None  # as training/optim.py has it
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=fused)

        def run() -> Phases:
            times = [time.perf_counter()]
            images, labels = next(batches)
            times.append(time.perf_counter())
            with use_backend(formulation):
                optimizer.zero_grad(set_to_none=True)
                loss = nn.functional.cross_entropy(network(images), labels)
                times.append(time.perf_counter())
                loss.backward()  # type: ignore[no-untyped-call]
                times.append(time.perf_counter())
                optimizer.step()
            times.append(time.perf_counter())
            return dict(zip(PHASES, (after - before for before, after in itertools.pairwise(times)), strict=True))

        return network, run

    def _same_images(self, channels: int) -> Iterator[tuple[Tensor, Tensor]]:
        images = torch.randn(self.batch, channels, self.image_size, self.image_size)
        labels = torch.randint(0, self.classes, (self.batch,))
        return itertools.repeat((images.to(memory_format=torch.channels_last), labels))

    def _batches(self, channels: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Of random images, in a random order, cropped, mirrored and normalised as training does it."""
        shape = (4 * self.batch, channels, self.image_size, self.image_size)
        images = torch.randint(0, 256, shape, dtype=torch.uint8)
        split = ArraySplit(images, torch.randint(0, self.classes, shape[:1]))
        look = ((0.5,) * channels, (0.25,) * channels)
        spec = Spec("random", self.classes, channels, self.image_size, *look, ())
        batches = Batches(split, spec, batch_size=self.batch, shuffle=True, augmentation="crop-flip")
        for epoch in itertools.count():
            for batch in batches.epoch(epoch):
                yield batch.images.to(memory_format=torch.channels_last), batch.labels


def check_rounds(rounds: int) -> None:
    if rounds < 1:
        raise UserError(f"rounds must be 1 or more, not {rounds}")


def _status_mb(field: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def _measure_peak(case: Case, formulation: Backend, answer: Any) -> None:
    torch.set_num_threads(case.threads)
    torch.randn(64, 64).mm(torch.randn(64, 64))
    before = _status_mb("VmRSS")
    _, step = case.training(formulation)
    for _ in range(WARM_UP + 1):
        step()
    answer.put(_status_mb("VmHWM") - before)


def peak_mb(case: Case, formulation: Backend) -> float:
    """Memory that the network, its optimizer and three steps take on top of PyTorch itself, in a fresh process."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    child = context.Process(target=_measure_peak, args=(case, formulation, answer))
    child.start()
    child.join()
    if child.exitcode != 0:
        raise UserError(f"the {formulation} formulation ended with code {child.exitcode}; is there memory for it?")
    return float(answer.get())


def _isa(formulation: Backend) -> str:
    return (
        str(_native.capabilities()["isa"])
        if formulation.startswith("native")
        else torch.backends.cpu.get_cpu_capability().lower()
    )


def measure(case: Case, *, rounds: int = 10) -> list[dict[str, Any]]:
    """A row per formulation. The rounds are interleaved, so that a slow moment of the machine meets all alike."""
    check_rounds(rounds)
    has_all = _native.capabilities()["training"]["bytes"]  # a wrong FTBNN_ISA is said before anything is measured
    torch.set_num_threads(case.threads)
    steps = {name: case.training(name)[1] for name in FORMULATIONS if has_all or name != "native8"}
    times: dict[Backend, list[float]] = {name: [] for name in steps}
    for turn in range(WARM_UP + rounds):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if turn >= WARM_UP:
                times[name].append(time.perf_counter() - started)
    del steps
    base = statistics.median(times["plain"])
    return [
        {
            "formulation": name,
            "isa": _isa(name),
            "model": case.model,
            "width": case.width,
            "batch": case.batch,
            "image_size": case.image_size,
            "threads": case.threads,
            "median_ms": 1e3 * statistics.median(taken),
            "min_ms": 1e3 * min(taken),
            "images_per_s": case.batch / statistics.median(taken),
            "speedup": base / statistics.median(taken),
            "peak_mb": peak_mb(case, name),
        }
        for name, taken in times.items()
    ]
