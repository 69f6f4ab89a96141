"""Bi-Real Net as the paper compares with it: explicit scaling factors, no non-linear module (paper, figure 1a)."""

from ftbnn.models.baseline import FTBNN
from ftbnn.nn import ScaledBConv, StemName


def bireal(
    *,
    layers: int = 18,
    width: int = 64,
    classes: int = 1000,
    in_channels: int = 3,
    stem: StemName = "imagenet",
) -> FTBNN:
    """Bi-Real Net 18 or 34 with FTBNN's straight-through gradient, so that the recipe is the same for both."""
    return FTBNN(
        layers=layers,
        width=width,
        classes=classes,
        in_channels=in_channels,
        stem=stem,
        act="none",
        stage_end_act="none",
        conv=ScaledBConv,
    )
