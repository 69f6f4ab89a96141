"""Bop (Helwegen et al. 2019): binary weights without real-valued ones behind them.

    mean <- (1 - rate) mean + rate gradient,     w <- -w where mean * w > threshold

Parameters of groups that say `is_binary` hold -1 and +1 and are flipped; the others are Adam's.
"""

from typing import Any

import torch
from torch import nn

from ftbnn.errors import UserError
from ftbnn.nn.layer import layers


def flippable(network: nn.Module) -> list[nn.Parameter]:
    """The weights that Bop turns, made -1 and +1; an error where signs are more than the weights' own."""
    found: list[nn.Parameter] = []
    for path, layer in layers(network):
        signs = getattr(layer, "signs", None)
        own = [parameter for parameter in layer.binary_parameters() if parameter.requires_grad]
        if signs is not None and (layer.rounded_parameters() or (own and not signs.is_plain)):
            raise UserError(
                f"bop flips plain signs, and the method of {path} makes them of real-valued weights: "
                "use the method bop, ftbnn or another without transforms and scales of weights"
            )
        found += own
    if not found:
        raise UserError("bop flips binary weights, and the network has none")
    with torch.no_grad():
        for parameter in found:
            parameter.copy_(torch.where(parameter > 0, 1.0, -1.0))
    return found


class Bop(torch.optim.Adam):
    """Adam for real numbers, flips for binary ones. A group's `rate` is scaled as its lr is."""

    def __init__(self, groups: list[dict[str, Any]], *, lr: float, rate: float, threshold: float) -> None:
        binary = [group for group in groups if group.get("is_binary")]
        real = [group for group in groups if not group.get("is_binary")]
        super().__init__(real or [{"params": []}], lr=lr)
        self.first_lr = lr
        for group in binary:
            self.add_param_group({**group, "rate": rate, "threshold": threshold})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        kept = self.param_groups
        self.param_groups = [group for group in kept if not group.get("is_binary")]
        try:
            loss = super().step(closure)
        finally:
            self.param_groups = kept
        for group in (group for group in kept if group.get("is_binary")):
            rate = group["rate"] * float(group["lr"]) / self.first_lr
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                mean = state.setdefault("mean", torch.zeros_like(parameter))
                mean.mul_(1 - rate).add_(parameter.grad, alpha=rate)
                parameter.copy_(torch.where(mean * parameter > group["threshold"], -parameter, parameter))
        return loss
