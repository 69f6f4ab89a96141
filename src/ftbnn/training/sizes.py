"""Small images first: early epochs learn from images of fewer pixels, which takes less time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.errors import UserError, first_line
from ftbnn.training.recipe import Recipe

WHOLE_FROM = 2 / 3  # of the epochs
STEP = 4  # pixels: every reduction of a network halves a side


def side_at(recipe: Recipe, epoch: int, side: int) -> int:
    """What a side of an image is in an epoch."""
    done = min(1.0, epoch / (WHOLE_FROM * recipe.epochs))
    share = recipe.first_size + (1 - recipe.first_size) * done
    return side if share >= 1 else min(side, max(STEP, round(share * side / STEP) * STEP))


def resized(images: Tensor, recipe: Recipe, epoch: int) -> Tensor:
    """A batch as the epoch sees it."""
    whole = tuple(images.shape[2:])
    size = tuple(side_at(recipe, epoch, side) for side in whole)
    if size == whole:
        return images
    small = F.interpolate(images, size, mode="bilinear", antialias=True)
    is_last = images.is_contiguous(memory_format=torch.channels_last)
    return small.contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)


def check(network: nn.Module, recipe: Recipe, images: Tensor) -> None:
    """Raises UserError if the network does not take the smallest images of the recipe."""
    small, was_training = resized(images[:2], recipe, 0), network.training
    try:
        with torch.no_grad():
            network.eval()(small)
    except (RuntimeError, ValueError) as error:
        size = " x ".join(map(str, small.shape[2:]))
        raise UserError(
            f"first_size={recipe.first_size:g} begins with {size} pixels, which this network does not take: "
            f"{first_line(error)}"
        ) from error
    finally:
        network.train(was_training)
