"""synthetic: made images for trials and tests: a smooth random pattern per class under noise."""

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ftbnn.data.source import ArraySplit, Source, Spec

PATTERN_SIDE = 4  # the patterns are this coarse, so that they survive crops and pooling
PATTERN_LEVEL = 40.0  # of 255; as strong as the noise
NOISE_LEVEL = 40.0
STD = (PATTERN_LEVEL**2 / 2 + NOISE_LEVEL**2) ** 0.5 / 255  # bilinear growth leaves about half of the pattern's power


def synthetic(
    *,
    classes: int = 10,
    channels: int = 3,
    image_size: int = 32,
    train: int = 2048,
    test: int = 512,
    seed: int = 0,
) -> Source:
    """The same images for the same arguments; classes follow one another, so every stretch is balanced."""
    generator = torch.Generator().manual_seed(seed)
    coarse = PATTERN_LEVEL * torch.randn(classes, channels, PATTERN_SIDE, PATTERN_SIDE, generator=generator)
    patterns = 127.5 + interpolate(coarse, size=(image_size, image_size), mode="bilinear", align_corners=False)
    spec = Spec(
        name="synthetic",
        classes=classes,
        channels=channels,
        image_size=image_size,
        mean=(0.5,) * channels,
        std=(STD,) * channels,
        class_names=tuple(f"pattern {k}" for k in range(classes)),
    )
    return Source(spec, train=_split(patterns, train, generator), test=_split(patterns, test, generator))


def _split(patterns: Tensor, count: int, generator: torch.Generator) -> ArraySplit:
    labels = torch.arange(count) % len(patterns)
    images = torch.empty(count, *patterns.shape[1:], dtype=torch.uint8)
    for image, label in zip(images, labels, strict=True):
        noise = NOISE_LEVEL * torch.randn(image.shape, generator=generator)
        image.copy_((patterns[label] + noise).round_().clamp_(0, 255))
    return ArraySplit(images, labels)
