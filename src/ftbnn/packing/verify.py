"""Runs a file with the native engine and compares it with the module it came from."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ftbnn.packing.graph import ExportError
from ftbnn.runtime import load
from ftbnn.tracing import evaluating

# A sign next to 0 may turn with the order of a sum and move an image's outputs; a wrong file is wrong for many, or
# everywhere a little.
TOLERANCE = 0.1
MOST_OFF = 0.25  # share of images that may be off by more
MEDIAN = 0.02  # that half of the images may be off by


@dataclass(frozen=True)
class Agreement:
    """How the engine's outputs compare with the module's over `images` samples."""

    images: int
    top1: float  # share of images with the same best output, 0 to 1
    median_error: float  # median over images of the largest difference, relative to the largest output


def verify(module: nn.Module, file: bytes, samples: Tensor) -> Agreement:
    """Raises ExportError if the file does not compute what the module does."""
    with evaluating(module):
        parts = torch.split(samples, 32)
        expected = torch.cat([module(part) for part in parts]).flatten(1).float().cpu().numpy()
    got = load(file)(samples.float().cpu().numpy())
    scale = np.maximum(np.abs(expected).max(axis=1), np.finfo(np.float32).tiny)
    errors = np.abs(got - expected).max(axis=1) / scale
    same = float((got.argmax(1) == expected.argmax(1)).mean())
    result = Agreement(len(samples), same, float(np.median(errors)))
    many_off = (errors > TOLERANCE).mean() > MOST_OFF or result.median_error > MEDIAN
    if not np.isfinite(errors).all() or many_off:
        raise ExportError(
            "",
            f"its file does not compute what the module does: same best output for {same:.1%} of {len(samples)} "
            f"samples, median error {result.median_error:.2g}; does a hook or an in-place change hide from tracing? If "
            f"nothing of the kind is there, the fault is ours: please report it with the module",
        )
    return result
