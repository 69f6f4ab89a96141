"""The training loop: epochs of steps, evaluated, recorded and saved so that any interruption can be undone."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ftbnn import _native
from ftbnn.data.batches import Batch, Batches
from ftbnn.errors import Stopped, UserError
from ftbnn.nn import set_backend
from ftbnn.training import checkpoint
from ftbnn.training.diagnose import Diverged, explain, first_bad_number
from ftbnn.training.distributed import World
from ftbnn.training.optim import learning_rate, optimizer
from ftbnn.training.progress import Progress
from ftbnn.training.recipe import Recipe
from ftbnn.training.record import Flips, Recorder, slopes
from ftbnn.training.run import ModelSpec, RunDir
from ftbnn.training.scores import Sums, evaluate, hits
from ftbnn.training.signals import StopSignals
from ftbnn.training.task import Task

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class Position:
    """Where the run is: `step` steps of epoch `epoch` are done. All of it is in the checkpoint."""

    epoch: int = 0
    step: int = 0
    sums: Sums = field(default_factory=Sums)
    best_top1: float = -1.0
    corrupt: list[str] = field(default_factory=list)
    row: dict[str, Any] = field(default_factory=dict)  # of the last epoch done


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
        set_backend(self.network, "torch" if recipe.backend == "auto" else recipe.backend)
        self.task = Task(recipe, self.network, teacher.to(device) if teacher is not None else None)
        self.parallel: DistributedDataParallel | None = None
        if world.size > 1:
            self.parallel = DistributedDataParallel(
                self.network, device_ids=[device] if device.type == "cuda" else None
            )
        self.model: nn.Module = self.parallel or self.network
        if recipe.compile:
            self.model = torch.compile(self.model)  # type: ignore[assignment]
        self.optimizer = optimizer(self.network, recipe)
        self.scaler = torch.amp.GradScaler(device.type, enabled=recipe.precision == "fp16")
        self.at = Position()
        self.flips = Flips(self.network)
        self.saved_at = time.monotonic()

    def run(self, stop: StopSignals, *, resume: bool) -> dict[str, Any]:
        """Trains to the last epoch; returns the last epoch's row."""
        if resume:
            state = checkpoint.load(self.run_dir.last) if self.world.is_first else None
            self._restore(self.world.share(state))
        self.recorder = None
        if self.world.is_first:
            self.recorder = Recorder(self.run_dir.path, after_step=self._global_step(), epochs=self.at.epoch)
        images = len(self.train_batches.split)
        seen = self.at.epoch * images + int(self.at.sums.images)
        self.progress = Progress(self.recipe.epochs * images, seen, quiet=self.quiet)
        try:
            while self.at.epoch < self.recipe.epochs:
                started, seen_before = time.monotonic(), self.at.sums.images
                self._train_epoch(stop)
                seconds = time.monotonic() - started
                self._finish_epoch(seconds, (self.at.sums.images - seen_before) / seconds)
                self._stop_if_asked(self.world.sum([float(stop.received)], self.device)[0], stop)
        finally:
            self.progress.close()
            self.task.close()
            if self.recorder is not None:
                self.recorder.close()
        return self.at.row

    def _train_epoch(self, stop: StopSignals) -> None:
        self.network.train()
        _native.training.release_blocks()  # before workers are forked: pages that they share are copied when written
        epoch, finished = self.at.epoch, time.monotonic()
        for batch in self.train_batches.epoch(epoch, start=self.at.step):
            rate = learning_rate(self.recipe, self._global_step(), len(self.train_batches))
            loss, top1, top5 = self._step(batch, rate)
            due = time.monotonic() - self.saved_at > self.save_seconds
            count = float(len(batch))
            own = [loss * count, top1, top5, count, float(stop.received), float(due), float(len(batch.corrupt))]
            *sums, stopping, saving, corrupt = self.world.sum(own, self.device)
            self.at.sums.add(sums)
            self.at.step += 1
            if corrupt:
                self._note_corrupt([path for part in self.world.gather(batch.corrupt) for path in part])
            now = Sums(*sums).means("")
            self.progress.advance(int(sums[3]), f"epoch {epoch + 1}/{self.recipe.epochs}  loss {now['loss']:.3f}")
            pace, finished = sums[3] / max(time.monotonic() - finished, 1e-9), time.monotonic()
            if self.at.step % self.log_every == 0 and self.recorder is not None:
                where = {"kind": "step", "epoch": epoch, "step": self._global_step()}
                self.recorder.write(where | now | {"lr": rate, "images_per_s": pace})
            if stopping or saving or (self.save_every and self.at.step % self.save_every == 0):
                self._save_last()
            self._stop_if_asked(stopping, stop)

    def _stop_if_asked(self, asked: float, stop: StopSignals) -> None:
        """Ends a run that is saved. All processes see the same `asked`; a finished run has nothing to stop."""
        if asked and self.at.epoch < self.recipe.epochs:
            raise Stopped(
                stop.received or 15, f"epoch {self.at.epoch + 1}, step {self.at.step} of {len(self.train_batches)}"
            )

    def _step(self, batch: Batch, rate: float) -> tuple[float, float, float]:
        """One optimizer step; returns the mean loss and the hits of this process's images."""
        if not len(batch) or (len(batch) == 1 and batch.corrupt):
            if self.world.size == 1:
                return 0.0, 0.0, 0.0
            batch = self._stand_in()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        total = top1 = top5 = 0.0
        for images, labels, is_last in self._micro_batches(batch):
            with nullcontext() if is_last or self.parallel is None else self.parallel.no_sync():
                with self._autocast():
                    loss, logits = self._loss(images, labels)
                part = len(labels) / len(batch)
                self.scaler.scale(loss * (part * batch.share)).backward()  # type: ignore[no-untyped-call]
            total += part * float(loss.detach())
            good = hits(logits.detach(), labels)
            top1, top5 = top1 + good[0], top5 + good[1]
        self._check_loss(total, batch, rate)
        if self.recipe.clip_norm > 0:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return (total, top1, top5) if batch.share else (0.0, 0.0, 0.0)

    def _loss(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        try:
            return self.task.loss(self.model, images, labels)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise UserError("BatchNorm needs at least two images in every process: raise batch_size") from error

    def _check_loss(self, loss: float, batch: Batch, rate: float) -> None:
        """Ends the run, in all processes, if one has a loss that is not a number or has exploded."""
        bad = not loss <= self.recipe.max_loss  # true for NaN as well
        if not self.world.sum([float(bad)], self.device)[0]:
            return
        story = (loss, *explain(self.network, self._on_device(batch.images))) if bad else None
        loss, where, advice = next(told for told in self.world.gather(story) if told is not None)
        step = f"epoch {self.at.epoch + 1}, step {self.at.step + 1} (lr {rate:.3g})"
        raise self._diverged(f"the loss is {loss:g} at {step}; {where}", advice)

    def _check_weights(self) -> None:
        """What is not finite is never saved."""
        if (name := first_bad_number(self.network)) is not None:
            where = f"epoch {self.at.epoch + 1}, after step {self.at.step}"
            raise self._diverged(f"{name} is not finite at {where}", "try a lower rate (--set lr=...)")

    def _diverged(self, what: str, advice: str) -> Diverged:
        kept = f"{self.run_dir.last} is from before" if self.run_dir.last.exists() else "nothing was saved yet"
        return Diverged(what, f"The last good checkpoint is kept ({kept}); {advice}")

    def _micro_batches(self, batch: Batch) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """(images, labels, is last): as many parts as the recipe accumulates, of two images at least for BatchNorm."""
        parts = max(1, min(self.recipe.accumulate, len(batch) // 2))
        pairs = zip(batch.images.tensor_split(parts), batch.labels.tensor_split(parts), strict=True)
        for number, (images, labels) in enumerate(pairs, start=1):
            yield self._on_device(images), labels.to(self.device, non_blocking=True), number == parts

    def _stand_in(self) -> Batch:
        """Two black images of no weight: all of this process's were corrupt, but the others wait for its gradients."""
        spec = self.train_batches.spec
        if spec is None:
            raise UserError("the data set is too small for this many processes: one of them has no image")
        images = torch.zeros(2, spec.channels, spec.image_size, spec.image_size)
        return Batch(images, torch.zeros(2, dtype=torch.int64), share=0.0)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.recipe.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=AUTOCAST[self.recipe.precision])

    def _on_device(self, images: Tensor) -> Tensor:
        return images.to(self.device, non_blocking=True, memory_format=self.memory_format)

    def _finish_epoch(self, seconds: float, pace: float) -> None:
        _native.training.release_blocks()
        scores = evaluate(
            self.network,
            self.val_batches,
            device=self.device,
            world=self.world,
            autocast=self._autocast,
            memory_format=self.memory_format,
        )
        unreadable = scores.pop("val_corrupt")
        self._check_weights()
        self._note_corrupt(unreadable)
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
        best = max(scores["val_top1"], self.at.best_top1)
        is_best = best > self.at.best_top1
        self.at = Position(epoch=self.at.epoch + 1, best_top1=best, corrupt=self.at.corrupt, row=row)
        if is_best and self.world.is_first:
            checkpoint.save(self.run_dir.best, self._weights() | {"scores": scores})
        self._save_last()

    def _note_corrupt(self, paths: list[str]) -> None:
        for path in paths:
            if path not in self.at.corrupt:
                self.at.corrupt.append(path)
                self.progress.say(f"skipped a corrupt image: {path}")
        images = len(self.train_batches.split) + len(self.val_batches.split)
        if len(self.at.corrupt) > self.max_corrupt * images:
            raise UserError(
                f"{len(self.at.corrupt)} of {images} images are corrupt, more than --max-corrupt "
                f"{self.max_corrupt:g} allows; the last is {self.at.corrupt[-1]}"
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
        """Saves in the first process; the others wait, so that what one of them reads next is whole."""
        states = self.world.gather(checkpoint.random_state())
        self.saved_at = time.monotonic()
        self._check_weights()
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
        self.world.barrier()

    def _restore(self, state: dict[str, Any]) -> None:
        try:
            self.network.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scaler.load_state_dict(state["scaler"])
            position = state["position"]
            self.at = Position(**{**position, "sums": Sums(**position["sums"])})
            self.flips.restore(state["flips"])
            if len(state["random"]) == self.world.size:
                checkpoint.restore_random_state(state["random"][self.world.rank])
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise UserError(f"{self.run_dir.last} belongs to another network or is incomplete: {reason}") from error
