"""The training loop: epochs of steps, evaluated, recorded and saved so that any interruption can be undone."""

import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import ReduceLROnPlateau

from ftbnn.data.batches import Batch, Batches, first_images
from ftbnn.data.own import LoaderBatches
from ftbnn.data.source import Spec
from ftbnn.errors import Stopped, UserError, first_line
from ftbnn.nn import set_progress, use_backend
from ftbnn.nn.layer import after_step, lay_out, records
from ftbnn.nn.native import release_memory
from ftbnn.training import checkpoint
from ftbnn.training.diagnose import Diverged, explain, first_bad_number
from ftbnn.training.distributed import World
from ftbnn.training.optim import learning_rate, optimizer
from ftbnn.training.options import Options
from ftbnn.training.progress import Progress
from ftbnn.training.recipe import Recipe
from ftbnn.training.record import Flips, Recorder
from ftbnn.training.run import RunDir, apply_modes, misfit
from ftbnn.training.scores import BEST, BEST_ON_TEST, LAST, Sums, evaluate, hits
from ftbnn.training.settle import settle
from ftbnn.training.signals import StopSignals
from ftbnn.training.sizes import check, resized
from ftbnn.training.task import Task

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Splits:
    """The batches of a run: `val` chooses between epochs, `test` is looked at once, at the end.

    They are the same ones where somebody chooses on the test images, and the scores say so.
    """

    train: Batches | LoaderBatches
    val: Batches | LoaderBatches | None
    test: Batches | LoaderBatches | None


@dataclass
class Position:
    """Where the run is: `step` steps of epoch `epoch` are done. All of it is in the checkpoint."""

    epoch: int = 0
    step: int = 0
    sums: Sums = field(default_factory=Sums)
    best_top1: float = -1.0
    best_epoch: int = 0  # epochs done when it was
    is_over: bool = False  # a callback, or lost patience, has ended the run early
    corrupt: list[str] = field(default_factory=list)
    row: dict[str, Any] = field(default_factory=dict)  # of the last epoch done


class Loop:
    """One run of one recipe. `run()` carries it to its end from wherever its directory says it is."""

    def __init__(
        self,
        network: nn.Module,
        splits: Splits,
        recipe: Recipe,
        run: RunDir,
        options: Options,
        *,
        world: World,
        device: torch.device,
    ) -> None:
        self.recipe, self.run_dir, self.options, self.world, self.device = recipe, run, options, world, device
        self.splits = splits
        self.chosen = BEST_ON_TEST if splits.val is splits.test else BEST
        if recipe.patience and splits.val is None:
            raise UserError(f"patience={recipe.patience} needs validation images, and there are none")
        self.memory_format = torch.channels_last if recipe.channels_last else torch.contiguous_format
        self.network = network.to(device).to(memory_format=self.memory_format)  # type: ignore[call-overload]
        if recipe.backend.startswith("native"):
            lay_out(self.network)
        own = options.optimizer
        self.optimizer = optimizer(self.network, recipe) if own is None else _made("optimizer", own(self.network))
        self.scheduler = None if options.scheduler is None else _made("scheduler", options.scheduler(self.optimizer))
        self.parallel: DistributedDataParallel | None = None
        if world.size > 1:
            self.parallel = DistributedDataParallel(
                self.network, device_ids=[device] if device.type == "cuda" else None
            )
        self.model: nn.Module = self.parallel or self.network
        if recipe.compile:
            self.model = torch.compile(self.model)  # type: ignore[assignment]
        self.scaler = torch.amp.GradScaler(device.type, enabled=recipe.precision == "fp16")
        self.at = Position()
        self.saved_at = time.monotonic()
        teacher = None if options.teacher is None else options.teacher.to(device)
        self.task = Task(recipe, self.network, teacher, options.loss)  # the last: it hangs hooks on the networks

    def run(self, stop: StopSignals, *, resume: bool) -> dict[str, Any]:
        """Trains to the last epoch and leaves its weights in the network; returns the scores of the chosen ones."""
        apply_modes(self.network, self.recipe)
        self.flips = Flips(self.network)
        if resume:
            self._restore(self.world.share(self._saved() if self.world.is_first else None))
            scores = self.world.share(self.run_dir.scores() if self.world.is_first else None)
            if self._is_done() and scores.get("epochs") == self.at.epoch:
                return dict(scores)
        if self.recipe.first_size < 1:
            check(self.network, self.recipe, self._on_device(next(first_images(self.splits.train.epoch(0)))))
        self.recorder = None
        if self.world.is_first:
            self.recorder = Recorder(self.run_dir.path, after_step=self._global_step(), epochs=self.at.epoch)
        images = self.splits.train.images
        seen = self.at.epoch * images + int(self.at.sums.images)
        self.progress = Progress(self.recipe.epochs * images, seen, quiet=self.options.quiet or not self.world.is_first)
        try:
            with use_backend(self.recipe.backend):  # type: ignore[arg-type]
                while not self._is_done():
                    started, seen_before = time.monotonic(), self.at.sums.images
                    self._train_epoch(stop)
                    seconds = time.monotonic() - started
                    self._finish_epoch(seconds, (self.at.sums.images - seen_before) / seconds)
                    self._stop_if_asked(self.world.sum([float(stop.received)], self.device)[0], stop)
                return self._finish()
        finally:
            self.progress.close()
            if self.recorder is not None:
                self.recorder.close()

    def _is_done(self) -> bool:
        return self.at.epoch >= self.recipe.epochs or self.at.is_over

    def close(self) -> None:
        """Takes what was hung on the user's networks off again."""
        self.task.close()

    def _train_epoch(self, stop: StopSignals) -> None:
        _train_mode(self.network)
        set_progress(self.network, self.at.epoch / self.recipe.epochs)
        release_memory()  # before workers are forked: pages that they share are copied when written
        epoch, finished = self.at.epoch, time.monotonic()
        for batch in self.splits.train.epoch(epoch, start=self.at.step):
            rate = self._rate()
            loss, top1, top5, count = self._step(batch, rate)
            due = time.monotonic() - self.saved_at > 60 * self.options.save_minutes
            own = [loss * count, top1, top5, count, float(stop.received), float(due), float(len(batch.corrupt))]
            *sums, stopping, saving, corrupt = self.world.sum(own, self.device)
            self.at.sums.add(sums)
            self.at.step += 1
            if corrupt:
                self._note_corrupt([path for part in self.world.gather(batch.corrupt) for path in part])
            now = Sums(*sums).means("")
            self.progress.advance(int(sums[3]), f"epoch {epoch + 1}/{self.recipe.epochs}  loss {now['loss']:.3f}")
            pace, finished = sums[3] / max(time.monotonic() - finished, 1e-9), time.monotonic()
            if self.at.step % self.options.log_every == 0 and self.recorder is not None:
                where = {"kind": "step", "epoch": epoch, "step": self._global_step()}
                self.recorder.write(where | now | {"lr": rate, "images_per_s": pace})
            every = self.options.save_every
            if stopping or saving or (every and self.at.step % every == 0):
                self._save_last()
            self._stop_if_asked(stopping, stop)

    def _rate(self) -> float:
        if self.scheduler is not None or self.options.optimizer is not None:
            return float(self.optimizer.param_groups[0]["lr"])
        return learning_rate(self.recipe, self._global_step(), len(self.splits.train))

    def _stop_if_asked(self, asked: float, stop: StopSignals) -> None:
        """Ends a run that is saved. All processes see the same `asked`; a finished run has nothing to stop."""
        if asked and not self._is_done():
            raise Stopped(
                stop.received or 15, f"epoch {self.at.epoch + 1}, step {self.at.step} of {len(self.splits.train)}"
            )

    def _step(self, batch: Batch, rate: float) -> tuple[float, float, float, float]:
        """One optimizer step; the mean loss, the hits and the number of this process's images in it."""
        if not len(batch) or (len(batch) == 1 and batch.corrupt):
            if self.world.size == 1:
                return 0.0, 0.0, 0.0, 0.0
            batch = self._stand_in()
        if self.scheduler is None and self.options.optimizer is None:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        total = top1 = top5 = 0.0
        for whole, labels, is_last in self._micro_batches(batch):
            images = resized(whole, self.recipe, self.at.epoch)
            with nullcontext() if is_last or self.parallel is None else self.parallel.no_sync():
                with self._autocast():
                    loss, logits = self._loss(images, labels)
                part = len(labels) / len(batch)
                self.scaler.scale(loss * (part * batch.share)).backward()  # type: ignore[no-untyped-call]
            total += part * float(loss.detach())
            good = hits(logits, labels)
            top1, top5 = top1 + good[0], top5 + good[1]
        self._check_loss(total, batch, rate)
        if self.recipe.clip_norm > 0:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        after_step(self.network)
        return (total, top1, top5, float(len(batch))) if batch.share else (0.0, 0.0, 0.0, 0.0)

    def _loss(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Any]:
        try:
            loss, logits = self.task.loss(self.model, images, labels)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise UserError("BatchNorm needs at least two images in every process: raise batch_size") from error
        spec = self.splits.train.spec
        if spec is not None and self.options.loss is None and not self._global_step() and self.world.is_first:
            _note_outputs(logits.shape[1], spec)
        return loss, logits

    def _check_loss(self, loss: float, batch: Batch, rate: float) -> None:
        """Ends the run, in all processes, if one has a loss that is not a number or has exploded."""
        is_bad = not loss <= self.recipe.max_loss  # true for NaN as well
        if not self.world.sum([float(is_bad)], self.device)[0]:
            return
        divergence = (loss, *explain(self.network, self._on_device(batch.images))) if is_bad else None
        loss, where, advice = next(found for found in self.world.gather(divergence) if found is not None)
        step = f"epoch {self.at.epoch + 1}, step {self.at.step + 1} (lr {rate:.3g})"
        raise self._diverged(f"the loss is {loss:g} at {step}; {where}", advice)

    def _check_weights(self) -> None:
        """What is not finite, in any process, is never saved."""
        bad = next((name for name in self.world.gather(first_bad_number(self.network)) if name is not None), None)
        if bad is not None:
            where = f"epoch {self.at.epoch + 1}, after step {self.at.step}"
            raise self._diverged(f"{bad} is not finite at {where}", "try a lower rate (lr)")

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
        spec = self.splits.train.spec
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

    def _evaluate(self, batches: Batches | LoaderBatches, prefix: str) -> dict[str, Any]:
        scores = evaluate(
            self.network,
            batches,
            device=self.device,
            prefix=prefix,
            loss=self.options.loss,
            world=self.world,
            autocast=self._autocast,
            memory_format=self.memory_format,
        )
        self._note_corrupt(scores.pop("corrupt"))
        return scores

    def _finish_epoch(self, seconds: float, pace: float) -> None:
        release_memory()
        if self.recipe.norm_images and self.at.epoch + 1 == self.recipe.epochs:
            unseen = self.splits.train.epoch(self.recipe.epochs)  # in an order that no epoch had
            images = first_images(unseen, -(-self.recipe.norm_images // self.world.size))
            settle(self.network, (self._on_device(some) for some in images), self.world)
        self.world.share_buffers(self.network)
        scores = {} if self.splits.val is None else self._evaluate(self.splits.val, "val_")
        self._check_weights()
        row: dict[str, Any] = {
            "kind": "epoch",
            "epoch": self.at.epoch,
            "step": self._global_step(),
            **self.at.sums.means("train_"),
            **scores,
            "lr": self._last_rate(),
            "images_per_s": pace,
            "seconds": seconds,
            "corrupt": len(self.at.corrupt),
            "flips": self.flips.ratios(),
            "records": records(self.network),
        }
        if self.recorder is not None:
            self.recorder.write(row)
        self._say_epoch(row)
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(row.get("val_loss", row["train_loss"]))
        elif self.scheduler is not None:
            self.scheduler.step()
        top1 = scores.get("val_top1", -1.0) if self.options.loss is None else -scores.get("val_loss", 0.0)
        is_best = bool(scores) and (top1 > self.at.best_top1 or not self.at.best_epoch)
        done = self.at.epoch + 1
        best = (top1, done) if is_best else (self.at.best_top1, self.at.best_epoch)
        self.at = Position(done, best_top1=best[0], best_epoch=best[1], corrupt=self.at.corrupt, row=row)
        if is_best and self.world.is_first:
            checkpoint.save(self.run_dir.best, self._weights() | {"scores": {"chosen": self.chosen, **_scores_in(row)}})
        has_lost_patience = 0 < self.recipe.patience <= done - best[1] and bool(best[1])
        shown = row | {"epoch": done}
        wishes = [callback(shown, self.network) for callback in self.options.callbacks]  # all of them, in any case
        self.at.is_over = self.world.share(has_lost_patience or any(wishes))
        self._save_last()

    def _last_rate(self) -> float:
        if self.scheduler is not None or self.options.optimizer is not None:
            return self._rate()
        return learning_rate(self.recipe, self._global_step() - 1, len(self.splits.train))

    def _say_epoch(self, row: dict[str, Any]) -> None:
        text = f"epoch {row['epoch'] + 1:>3}/{self.recipe.epochs}  train loss {row['train_loss']:.4f}"
        if self.options.loss is None:
            text += f" top-1 {row['train_top1']:.2f}"
        if "val_loss" in row:
            text += f"  validation loss {row['val_loss']:.4f}"
            text += f" top-1 {row['val_top1']:.2f}" if self.options.loss is None else ""
        self.progress.say(f"{text}  {row['images_per_s']:.0f} img/s")

    def _finish(self) -> dict[str, Any]:
        """Looks at the test split once, with the chosen weights: the best epoch's, or the last one's."""
        scores = {"epoch": self.at.epoch, "chosen": LAST, **_scores_in(self.at.row)}
        if self.at.best_epoch:
            best = self.world.share(checkpoint.load(self.run_dir.best) if self.world.is_first else None)
            scores = {"epoch": best["epoch"], "chosen": self.chosen, **best["scores"]}
            last = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
            self.network.load_state_dict(best["model"])
        if self.splits.test is not None:
            scores |= self._evaluate(self.splits.test, "test_")
        if self.at.best_epoch:
            self.network.load_state_dict(last)
        pace = self.at.row.get("images_per_s")
        scores |= {"epochs": self.at.epoch, "corrupt": len(self.at.corrupt), "images_per_s": pace}
        if self.world.is_first:
            self.run_dir.write_json("scores.json", scores)
        return scores

    def _note_corrupt(self, paths: list[str]) -> None:
        for path in paths:
            if path not in self.at.corrupt:
                self.at.corrupt.append(path)
                self.progress.say(f"skipped a corrupt image: {path}")
        splits = (self.splits.train, self.splits.val, self.splits.test)
        images = sum(batches.images for batches in splits if batches is not None)
        if len(self.at.corrupt) > self.options.max_corrupt * images:
            raise UserError(
                f"{len(self.at.corrupt)} of {images} images are corrupt, more than the share of "
                f"{self.options.max_corrupt:g} that is allowed (max_corrupt); the last is {self.at.corrupt[-1]}"
            )

    def _global_step(self) -> int:
        return self.at.epoch * len(self.splits.train) + self.at.step

    def _weights(self) -> dict[str, Any]:
        spec = self.splits.train.spec
        return {
            "model": self.network.state_dict(),
            "model_spec": asdict(self.options.model),
            "recipe": self.recipe.to_json(),
            "spec": None if spec is None else asdict(spec),
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
                "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
                "scaler": self.scaler.state_dict(),
                "position": asdict(self.at),
                "flips": self.flips.state(),
                "random": states,
                "seed": self.options.seed,
            }
            checkpoint.save(self.run_dir.last, state)
        self.world.barrier()

    def _saved(self) -> dict[str, Any]:
        """The last checkpoint; one from before positions knew their best epoch has it in the best one."""
        state = checkpoint.load(self.run_dir.last)
        position = state.get("position", {})
        if position.get("best_top1", -1.0) >= 0:
            position.setdefault("best_epoch", checkpoint.load(self.run_dir.best)["epoch"])
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        try:
            self.network.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.scheduler is not None:
                self.scheduler.load_state_dict(state["scheduler"])
            self.scaler.load_state_dict(state["scaler"])
            position = state["position"]
            self.at = Position(**{**position, "sums": Sums(**position["sums"])})
            if self.recipe.epochs > state["recipe"]["epochs"]:  # it is extended
                self.at.is_over = False
            self.flips.restore(state["flips"])
            if len(state["random"]) == self.world.size:
                checkpoint.restore_random_state(state["random"][self.world.rank])
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = ("model" in state and misfit(self.network, state["model"])) or first_line(error)
            raise UserError(f"{self.run_dir.last} belongs to another network or is incomplete: {reason}") from error


def _scores_in(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key.startswith(("train_", "val_"))}


def _made(what: str, made: Any) -> Any:
    """What a user's function has given."""
    if not hasattr(made, "step"):
        raise UserError(f"your function of the {what} gives a {type(made).__name__}; it must return the {what}")
    return made


def _note_outputs(outputs: int, spec: Spec) -> None:
    if outputs != spec.classes:
        warnings.warn(f"the network has {outputs} outputs, {spec.name} has {spec.classes} classes", stacklevel=2)


def _train_mode(network: nn.Module) -> None:
    """Training mode, but for the BatchNorms of frozen parts: their statistics are of what must not move."""
    network.train()
    for module in network.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            for part in module.modules():
                if isinstance(part, BatchNorm):
                    part.eval()
