"""Augmentation and normalisation of batches that live in memory.

Views are drawn first, a few numbers an image; then one pass of the native core cuts, mirrors and normalises, or, where
it was not built, PyTorch does, to the same bits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ftbnn.errors import unknown

try:
    from ftbnn import _native
except ImportError:
    _native = None  # type: ignore[assignment]

ARRAY_AUGMENTS = ("none", "crop", "crop-flip", "crop-alternate")


class Views(NamedTuple):
    """Where each view begins in its image, which has a border of `pad` black pixels, and whether it is mirrored."""

    pad: int
    tops: Tensor
    lefts: Tensor
    mirrored: Tensor


def plain_views(count: int) -> Views:
    """The images as they are."""
    start = torch.zeros(count, dtype=torch.int64)
    return Views(0, start, start, start.bool())


def draw_views(name: str, shape: Sequence[int], generator: torch.Generator) -> Views:
    """Random views of (N, C, H, W) images: a crop after padding by an eighth of the side, maybe mirrored.

    At 32 pixels that is the usual padding of 4. Which views of crop-alternate are mirrored is not drawn here but a
    matter of the epoch.
    """
    if name not in ARRAY_AUGMENTS:
        raise unknown("augmentation", name, ARRAY_AUGMENTS)
    count = shape[0]
    if name == "none":
        return plain_views(count)
    pad = max(shape[2:]) // 8
    tops, lefts = torch.randint(0, 2 * pad + 1, (2, count, 1), generator=generator)[..., 0]
    flips = name == "crop-flip"
    mirrored = torch.rand(count, 1, generator=generator)[:, 0] < 0.5 if flips else torch.zeros(count, dtype=torch.bool)
    return Views(pad, tops, lefts, mirrored)


def cut(images: Tensor, views: Views) -> Tensor:
    """These views of uint8 images (N, C, H, W). Crop and mirror are one gather."""
    count, _, height, width = images.shape
    padded = torch.nn.functional.pad(images, (views.pad,) * 4)
    rows = views.tops.unsqueeze(1) + torch.arange(height)
    columns = views.lefts.unsqueeze(1) + torch.arange(width)
    columns = torch.where(views.mirrored.unsqueeze(1), columns.flip(1), columns)
    which = torch.arange(count).view(-1, 1, 1)
    return padded.permute(0, 2, 3, 1)[which, rows.unsqueeze(2), columns.unsqueeze(1)].permute(0, 3, 1, 2)


def augment(images: Tensor, name: str, generator: torch.Generator) -> Tensor:
    """A random view of each uint8 image (N, C, H, W)."""
    return images if name == "none" else cut(images, draw_views(name, images.shape, generator))


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """uint8 (N, C, H, W) to float32 with zero mean and unit deviation: (x / 255 - mean) / std."""
    shift = torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1)
    scale = torch.tensor(std, dtype=torch.float32).view(-1, 1, 1)
    return images.to(torch.float32).div_(255).sub_(shift).div_(scale).contiguous()


def prepare(images: Tensor, which: Tensor, views: Views, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """normalise(cut(images[which], views)): some of all images (uint8), with a view for each that is taken.

    The native pass leaves channels last in memory, as the native backend reads images."""
    if _native is None or not images.is_contiguous():
        return normalise(cut(images[which], views), mean, std)
    bytes_of_a_channel = torch.arange(256, dtype=torch.uint8).view(1, 1, 1, 256).expand(1, images.shape[1], 1, 256)
    table = normalise(bytes_of_a_channel, mean, std).view(-1, 256)
    out = torch.empty((len(which), *images.shape[1:]), memory_format=torch.channels_last)
    _native.data.view(
        images=images.numpy(),
        which=which.contiguous().numpy(),
        tops=views.tops.contiguous().numpy(),
        lefts=views.lefts.contiguous().numpy(),
        mirrored=views.mirrored.contiguous().numpy(),
        pad=views.pad,
        table=table.numpy(),
        out=out.permute(0, 2, 3, 1).numpy(),
    )
    return out
