"""Augmentation and normalisation of batches that live in memory."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ftbnn.errors import unknown

ARRAY_AUGMENTS = ("none", "crop", "crop-flip")


def augment(images: Tensor, name: str, generator: torch.Generator) -> Tensor:
    """A random view of each uint8 image (N, C, H, W): a crop after padding by an eighth of its side, maybe mirrored.

    At 32 pixels that is the usual padding of 4. Crop and mirror are one gather.
    """
    if name == "none":
        return images
    if name not in ARRAY_AUGMENTS:
        raise unknown("augmentation", name, ARRAY_AUGMENTS)
    count, _, height, width = images.shape
    pad = max(height, width) // 8
    padded = torch.nn.functional.pad(images, (pad,) * 4)
    tops, lefts = torch.randint(0, 2 * pad + 1, (2, count, 1), generator=generator)
    rows, columns = tops + torch.arange(height), (lefts + torch.arange(width)).expand(count, width)
    if name == "crop-flip":
        mirrored = torch.rand(count, 1, generator=generator) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    which = torch.arange(count).view(-1, 1, 1)
    return padded.permute(0, 2, 3, 1)[which, rows.unsqueeze(2), columns.unsqueeze(1)].permute(0, 3, 1, 2)


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """uint8 (N, C, H, W) to float32 with zero mean and unit deviation: (x / 255 - mean) / std."""
    shift = torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1)
    scale = torch.tensor(std, dtype=torch.float32).view(-1, 1, 1)
    return images.to(torch.float32).div_(255).sub_(shift).div_(scale).contiguous()
