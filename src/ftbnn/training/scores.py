"""Loss and accuracy, summed over images and over processes."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.data.batches import Batches
from ftbnn.data.own import LoaderBatches
from ftbnn.errors import UserError
from ftbnn.training.distributed import World

LAST, BEST, BEST_ON_TEST = "last epoch", "best on validation", "best by test accuracy"  # how weights were chosen


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


def scores_of(network: nn.Module, images: Tensor) -> Tensor:
    """What the network says of the images."""
    out = network(images)
    if not isinstance(out, Tensor):
        raise UserError(f"the network gives a {type(out).__name__}; it must give one tensor of scores per image")
    return out


def loss_by(loss: Callable[[Any, Tensor], Tensor], outputs: Any, labels: Tensor) -> Tensor:
    """What a loss of the user's own says of whatever their network gives."""
    found = loss(outputs, labels)
    if not isinstance(found, Tensor):
        raise UserError(f"the loss gives a {type(found).__name__}; it must give one number, as a tensor")
    if found.numel() != 1:
        raise UserError(
            f"the loss gives a tensor of shape {tuple(found.shape)}; it must give one number: take the mean"
        )
    return found.reshape(())


def hits(logits: Any, labels: Tensor) -> tuple[float, float]:
    """How many labels are the best guess, and among the best five: of several outputs by the first, and none of what
    are no scores of classes, or of labels that are no class numbers."""
    logits = logits[0] if isinstance(logits, tuple | list) and logits else logits
    if not isinstance(logits, Tensor) or logits.dim() != 2 or labels.dim() != 1 or labels.is_floating_point():
        return 0.0, 0.0
    ranked = logits.topk(min(5, logits.shape[1]), dim=1).indices == labels.unsqueeze(1)
    return float(ranked[:, 0].sum()), float(ranked.any(dim=1).sum())


def check_labels(labels: Tensor, logits: Tensor) -> None:
    """A label the network has no output for is the user's mistake; on a GPU its own check stands for this one."""
    if logits.dim() != 2 or labels.dim() != 1 or labels.is_floating_point():
        raise UserError(
            f"cross-entropy wants scores (N, classes) and class numbers (N), not {tuple(logits.shape)} and "
            f"{tuple(labels.shape)} of {labels.dtype}; give a loss of your own"
        )
    if (
        labels.device.type == "cpu"
        and len(labels)
        and not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]
    ):
        raise UserError(
            f"labels go from {int(labels.min())} to {int(labels.max())}, but the network has {logits.shape[1]} outputs"
        )


@torch.no_grad()
def evaluate(
    network: nn.Module,
    batches: Batches | LoaderBatches,
    *,
    device: torch.device,
    prefix: str = "test_",
    loss: Callable[[Any, Tensor], Tensor] | None = None,
    world: World | None = None,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> dict[str, Any]:
    """Scores over the whole split, every image once, their names with a prefix; `corrupt` lists the images that could
    not be read."""
    world = world or World()
    world.share_buffers(network)
    network.eval()
    sums, corrupt = Sums(), list[str]()
    for batch in batches.epoch(0):
        corrupt += batch.corrupt
        if not len(batch):
            continue
        labels = batch.labels.to(device)
        with autocast():
            images = batch.images.to(device, memory_format=memory_format)
            logits = scores_of(network, images) if loss is None else network(images)
        if loss is None:
            check_labels(labels, logits)
            total_loss = float(nn.functional.cross_entropy(logits.float(), labels, reduction="sum"))
        else:
            total_loss = float(loss_by(loss, logits, labels)) * len(labels)
        sums.add([total_loss, *hits(logits, labels), float(len(labels))])
    total = Sums()
    total.add(world.sum([sums.loss, sums.top1, sums.top5, sums.images], device))
    if not total.images:
        raise UserError("the split has no image that can be read")
    paths = sorted({path for part in world.gather(corrupt) for path in part})
    return total.means(prefix) | {f"{prefix}images": int(total.images), "corrupt": paths}
