"""Plain Adam with weight decay where the paper's silence leaves it, and the learning rate as a function of the step."""

import math

import torch
from torch import nn

from ftbnn.errors import UserError
from ftbnn.training.recipe import Recipe


def optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Adam:
    """Adam; weight decay on real convolutions and the classifier alone, not on BatchNorm, slopes or binary weights."""
    decayed = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear)
        for parameter in module.parameters(recurse=False)
    }
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise UserError("there is nothing to train: every parameter of the network is frozen")
    groups = [
        {"params": [p for p in parameters if id(p) in decayed], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if id(p) not in decayed], "weight_decay": 0.0},
    ]
    # One pass over the memory instead of ten; the torch backend keeps the arithmetic that its runs began with.
    fused = True if recipe.backend.startswith("native") else None
    return torch.optim.Adam([group for group in groups if group["params"]], lr=recipe.lr, fused=fused)


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The rate of global step `step` (from 0). A function of the step alone, so resuming needs no schedule state."""
    epoch = step // steps_per_epoch
    warmup = recipe.warmup_epochs * steps_per_epoch
    if step < warmup:
        return recipe.lr * (step + 1) / (warmup + 1)
    if recipe.schedule == "constant":
        return recipe.lr
    if recipe.schedule == "multi-step":
        passed = sum(epoch >= round(share * recipe.epochs) for share in recipe.milestones)
        return recipe.lr * recipe.decay**passed
    total = recipe.epochs * steps_per_epoch
    return recipe.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
