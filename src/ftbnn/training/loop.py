"""The training loop: epochs of steps, evaluated, recorded and saved so that any interruption can be undone."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ftbnn.data.batches import Batch, Batches
from ftbnn.errors import Stopped, UserError
from ftbnn.training import checkpoint
from ftbnn.training.diagnose import explain
from ftbnn.training.distributed import World
from ftbnn.training.optim import learning_rate, optimizer
from ftbnn.training.progress import Progress
from ftbnn.training.recipe import Recipe
from ftbnn.training.record import Flips, Recorder, read, slopes
from ftbnn.training.run import ModelSpec, RunDir
from ftbnn.training.signals import StopSignals
from ftbnn.training.task import Task

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class Sums:
    """Running sums over images."""

    loss: float = 0.0
    top1: float = 0.0
    top5: float = 0.0
    images: float = 0.0

    def add(self, values: list[float]) -> None:
        self.loss, self.top1, self.top5, self.images = (
            have + new for have, new in zip((self.loss, self.top1, self.top5, self.images), values, strict=True)
        )

    def means(self, prefix: str) -> dict[str, float]:
        count = max(self.images, 1.0)
        return {
            f"{prefix}loss": self.loss / count,
            f"{prefix}top1": 100 * self.top1 / count,
            f"{prefix}top5": 100 * self.top5 / count,
        }


@dataclass
class Position:
    """Where the run is: `step` steps of epoch `epoch` are done. All of it is in the checkpoint."""

    epoch: int = 0
    step: int = 0
    sums: Sums = field(default_factory=Sums)
    best_top1: float = -1.0
    corrupt: list[str] = field(default_factory=list)


def hits(logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """How many labels are the best guess, and among the best five."""
    ranked = logits.topk(min(5, logits.shape[1]), dim=1).indices == labels.unsqueeze(1)
    return float(ranked[:, 0].sum()), float(ranked.any(dim=1).sum())


class Loop:
    """One run of one recipe. `run()` carries it to its end from wherever its directory says it is."""

    def __init__(
        self,
        network: nn.Module,
        train: Batches,
        val: Batches,
        recipe: Recipe,
        run: RunDir,
        *,
        world: World,
        device: torch.device,
        teacher: nn.Module | None = None,
        model_spec: ModelSpec,
        save_every: int = 0,
        save_minutes: float = 10.0,
        log_every: int = 50,
        max_corrupt: float = 0.01,
        quiet: bool = False,
    ) -> None:
        self.recipe, self.run_dir, self.world, self.device = recipe, run, world, device
        self.train_batches, self.val_batches, self.model_spec = train, val, model_spec
        self.save_every, self.save_seconds, self.log_every = save_every, 60 * save_minutes, log_every
        self.max_corrupt, self.quiet = max_corrupt, quiet or not world.is_first
        self.memory_format = torch.channels_last if recipe.channels_last else torch.contiguous_format
        self.network = network.to(device).to(memory_format=self.memory_format)  # type: ignore[call-overload]
        self.task = Task(recipe, self.network, teacher.to(device) if teacher is not None else None)
        self.model: nn.Module = self.network
        if world.size > 1:
            self.model = DistributedDataParallel(self.model, device_ids=[device] if device.type == "cuda" else None)
        if recipe.compile:
            self.model = torch.compile(self.model)  # type: ignore[assignment]
        self.optimizer = optimizer(self.network, recipe)
        self.scaler = torch.amp.GradScaler(device.type, enabled=recipe.precision == "fp16")
        self.at = Position()
        self.flips = Flips(self.network)
        self.saved_at = time.monotonic()

    def run(self, *, resume: bool) -> dict[str, Any]:
        """Trains to the last epoch; returns the last epoch's row."""
        if resume:
            self._restore(checkpoint.load(self.run_dir.last))
        done = self.at.epoch * len(self.train_batches) + self.at.step
        self.recorder = Recorder(self.run_dir.path, after_step=done) if self.world.is_first else None
        images = len(self.train_batches.split)
        seen = self.at.epoch * images + int(self.at.sums.images)
        self.progress = Progress(self.recipe.epochs * images, seen, quiet=self.quiet)
        row: dict[str, Any] = {}
        try:
            with StopSignals() as stop:
                while self.at.epoch < self.recipe.epochs:
                    started = time.monotonic()
                    seen_before = self.at.sums.images
                    self._train_epoch(stop)
                    seconds = time.monotonic() - started
                    row = self._finish_epoch(seconds, (self.at.sums.images - seen_before) / seconds)
        finally:
            self.progress.close()
            if self.recorder is not None:
                self.recorder.close()
        return row or self._last_row()

    def _last_row(self) -> dict[str, Any]:
        """The last epoch's row of a run that was complete already."""
        rows = [row for row in read(self.run_dir.metrics) if row["kind"] == "epoch"]
        return rows[-1] if rows else {}

    def _train_epoch(self, stop: StopSignals) -> None:
        self.network.train()
        epoch = self.at.epoch
        for batch in self.train_batches.epoch(epoch, start=self.at.step):
            rate = learning_rate(self.recipe, self._global_step(), len(self.train_batches))
            started = time.monotonic()
            loss, top1, top5 = self._step(batch, rate)
            due = time.monotonic() - self.saved_at > self.save_seconds
            count = float(len(batch))
            own = [loss * count, top1, top5, count, float(stop.received), float(due)]
            *sums, stopping, saving = self.world.sum(own, self.device)
            self.at.sums.add(sums)
            self.at.step += 1
            self._note_corrupt(batch.corrupt)
            mean = sums[0] / max(sums[3], 1.0)
            self.progress.advance(int(sums[3]), f"epoch {epoch + 1}/{self.recipe.epochs}  loss {mean:.3f}")
            if self.at.step % self.log_every == 0 and self.recorder is not None:
                pace = sums[3] / max(time.monotonic() - started, 1e-9)
                row = {"kind": "step", "epoch": epoch, "step": self._global_step(), "loss": mean, "lr": rate}
                self.recorder.write(row | {"top1": 100 * sums[1] / max(sums[3], 1.0), "images_per_s": pace})
            if stopping or saving or (self.save_every and self.at.step % self.save_every == 0):
                self._save_last()
            if stopping:
                where = f"epoch {epoch + 1}, step {self.at.step} of {len(self.train_batches)}"
                raise Stopped(stop.received or 15, where)

    def _step(self, batch: Batch, rate: float) -> tuple[float, float, float]:
        """One optimizer step; returns the mean loss and the hits of this process's images."""
        if not len(batch):
            if self.world.size == 1:
                return 0.0, 0.0, 0.0
            batch = self._stand_in(batch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        total = top1 = top5 = 0.0
        for images, labels, is_last in self._micro_batches(batch):
            with nullcontext() if is_last else self._no_sync():
                with self._autocast():
                    loss, logits = self.task.loss(self.model, images, labels)
                part = len(labels) / len(batch)
                self.scaler.scale(loss * (part * batch.share)).backward()  # type: ignore[no-untyped-call]
            total += part * float(loss.detach())
            good = hits(logits.detach(), labels)
            top1, top5 = top1 + good[0], top5 + good[1]
        bad = not total <= self.recipe.max_loss  # true for NaN as well
        if self.world.sum([float(bad)], self.device)[0]:
            where = {"lr": rate, "epoch": self.at.epoch + 1, "step": self.at.step + 1}
            raise explain(self.network, self._on_device(batch.images), total, **where)  # type: ignore[arg-type]
        if self.recipe.clip_norm > 0:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return total, top1, top5

    def _micro_batches(self, batch: Batch) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """(images, labels, is last): as many parts as the recipe accumulates, of two images at least for BatchNorm."""
        parts = max(1, min(self.recipe.accumulate, len(batch) // 2))
        pairs = zip(batch.images.tensor_split(parts), batch.labels.tensor_split(parts), strict=True)
        for number, (images, labels) in enumerate(pairs, start=1):
            yield self._on_device(images), labels.to(self.device, non_blocking=True), number == parts

    def _stand_in(self, batch: Batch) -> Batch:
        """Two black images of no weight: all of this process's were corrupt, but the others wait for its gradients."""
        spec = self.train_batches.spec
        assert spec is not None
        images = torch.zeros(2, spec.channels, spec.image_size, spec.image_size)
        return Batch(images, torch.zeros(2, dtype=torch.int64), share=0.0, corrupt=batch.corrupt)

    def _no_sync(self) -> AbstractContextManager[None]:
        return self.model.no_sync() if isinstance(self.model, DistributedDataParallel) else nullcontext()

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.recipe.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=AUTOCAST[self.recipe.precision])

    def _on_device(self, images: Tensor) -> Tensor:
        return images.to(self.device, non_blocking=True, memory_format=self.memory_format)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Loss and accuracy over the whole test split, every image once."""
        self.world.share_buffers(self.network)
        self.network.eval()
        sums = Sums()
        for batch in self.val_batches.epoch(0):
            if not len(batch):
                continue
            labels = batch.labels.to(self.device)
            with self._autocast():
                logits = self.network(self._on_device(batch.images))
            loss = nn.functional.cross_entropy(logits.float(), labels, reduction="sum")
            sums.add([float(loss), *hits(logits, labels), float(len(labels))])
        total = Sums()
        total.add(self.world.sum([sums.loss, sums.top1, sums.top5, sums.images], self.device))
        return total.means("val_")

    def _finish_epoch(self, seconds: float, pace: float) -> dict[str, Any]:
        scores = self.evaluate()
        row: dict[str, Any] = {
            "kind": "epoch",
            "epoch": self.at.epoch,
            "step": self._global_step(),
            **self.at.sums.means("train_"),
            **scores,
            "lr": learning_rate(self.recipe, self._global_step() - 1, len(self.train_batches)),
            "images_per_s": pace,
            "seconds": seconds,
            "corrupt": len(self.at.corrupt),
            "flips": self.flips.ratios(),
            "slopes": slopes(self.network),
        }
        if self.recorder is not None:
            self.recorder.write(row)
        self.progress.say(
            f"epoch {self.at.epoch + 1:>3}/{self.recipe.epochs}  train loss {row['train_loss']:.4f} "
            f"top-1 {row['train_top1']:.2f}  test loss {row['val_loss']:.4f} top-1 {row['val_top1']:.2f}  "
            f"{pace:.0f} img/s"
        )
        is_best = scores["val_top1"] > self.at.best_top1
        self.at = Position(
            epoch=self.at.epoch + 1,
            best_top1=max(scores["val_top1"], self.at.best_top1),
            corrupt=self.at.corrupt,
        )
        if is_best and self.world.is_first:
            checkpoint.save(self.run_dir.best, self._weights() | {"scores": scores})
        self._save_last()
        return row

    def _note_corrupt(self, paths: tuple[str, ...]) -> None:
        for path in paths:
            if path not in self.at.corrupt:
                self.at.corrupt.append(path)
                self.progress.say(f"skipped a corrupt image: {path}")
        limit = self.max_corrupt * len(self.train_batches.split)
        if len(self.at.corrupt) > limit:
            raise UserError(
                f"{len(self.at.corrupt)} of {len(self.train_batches.split)} training images are corrupt, more than "
                f"--max-corrupt {self.max_corrupt:g} allows; the last is {self.at.corrupt[-1]}"
            )

    def _global_step(self) -> int:
        return self.at.epoch * len(self.train_batches) + self.at.step

    def _weights(self) -> dict[str, Any]:
        return {
            "model": self.network.state_dict(),
            "model_spec": asdict(self.model_spec),
            "recipe": self.recipe.to_json(),
            "spec": asdict(self.train_batches.spec) if self.train_batches.spec is not None else None,
            "epoch": self.at.epoch,
        }

    def _save_last(self) -> None:
        states = self.world.gather(checkpoint.random_state())
        self.saved_at = time.monotonic()
        if self.world.is_first:
            state = self._weights() | {
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "position": asdict(self.at),
                "flips": self.flips.state(),
                "random": states,
                "seed": self.train_batches.seed,
            }
            checkpoint.save(self.run_dir.last, state)

    def _restore(self, state: dict[str, Any]) -> None:
        saved = Recipe.from_json(state["recipe"])
        if difference := self.recipe.difference(saved):
            raise UserError(f"a run resumes only with its own recipe; it differs in {'; '.join(difference)}")
        if state["seed"] != self.train_batches.seed:
            raise UserError(f"the run has seed {state['seed']}, not {self.train_batches.seed}")
        try:
            self.network.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{self.run_dir.last} belongs to another network: {str(error).splitlines()[0]}") from error
        self.scaler.load_state_dict(state["scaler"])
        position = state["position"]
        self.at = Position(**{**position, "sums": Sums(**position["sums"])})
        self.flips.restore(state["flips"])
        if len(state["random"]) == self.world.size:
            checkpoint.restore_random_state(state["random"][self.world.rank])
