"""The recipe's optimizer, weight decay where the paper's silence leaves it, and the rate as a function of the step."""

import math
from typing import Any

import torch
from torch import nn

from ftbnn.errors import UserError
from ftbnn.training.bop import Bop, flippable
from ftbnn.training.recipe import Recipe


def optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Weight decay on real convolutions and the classifier alone, not on BatchNorm, slopes or binary weights."""
    decayed = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear)
        for parameter in module.parameters(recurse=False)
    }
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise UserError("there is nothing to train: every parameter of the network is frozen")
    flipped = flippable(model) if recipe.optimizer == "bop" else []
    apart = {id(p) for p in flipped}
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if id(p) in decayed], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if id(p) not in decayed and id(p) not in apart], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    # One pass over the memory instead of ten; the torch backend keeps the arithmetic that its runs began with.
    fused = True if recipe.backend.startswith("native") else None
    if recipe.optimizer == "bop":
        groups.append({"params": flipped, "is_binary": True})
        return Bop(groups, lr=recipe.lr, rate=recipe.bop_rate, threshold=recipe.bop_threshold)
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=recipe.lr, momentum=recipe.momentum, fused=fused)
    kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=recipe.lr, fused=fused)


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
    done = (step - warmup) / max(1, total - warmup)
    if recipe.schedule == "linear":
        return recipe.lr * (1 - done)
    if recipe.schedule == "exponential":
        return recipe.lr * float(recipe.decay**done)
    return recipe.lr * 0.5 * (1 + math.cos(math.pi * done))
