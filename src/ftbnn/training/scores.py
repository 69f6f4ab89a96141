"""Loss and accuracy, summed over images and over processes."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.data.batches import Batches
from ftbnn.errors import UserError
from ftbnn.training.distributed import World


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


def hits(logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """How many labels are the best guess, and among the best five."""
    ranked = logits.topk(min(5, logits.shape[1]), dim=1).indices == labels.unsqueeze(1)
    return float(ranked[:, 0].sum()), float(ranked.any(dim=1).sum())


def check_labels(labels: Tensor, logits: Tensor) -> None:
    """A label the network has no output for is the user's mistake; on a GPU its own check stands for this one."""
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
    batches: Batches,
    *,
    device: torch.device,
    world: World | None = None,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> dict[str, Any]:
    """Scores over the whole split, every image once; `val_corrupt` lists the images that could not be read."""
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
            logits = network(batch.images.to(device, memory_format=memory_format))
        check_labels(labels, logits)
        loss = nn.functional.cross_entropy(logits.float(), labels, reduction="sum")
        sums.add([float(loss), *hits(logits, labels), float(len(labels))])
    total = Sums()
    total.add(world.sum([sums.loss, sums.top1, sums.top5, sums.images], device))
    if not total.images:
        raise UserError("the test split has no image that can be read")
    paths = sorted({path for part in world.gather(corrupt) for path in part})
    return total.means("val_") | {"val_images": int(total.images), "val_corrupt": paths}
