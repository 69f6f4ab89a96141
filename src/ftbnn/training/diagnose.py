"""Why a loss is no longer a number: the first layer where it went wrong, and what to try."""

from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn.layer import layers


class Diverged(UserError):
    """The loss is not finite or has exploded: `what` happened, and advice."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"{what}. {advice}")
        self.what = what


def first_bad_layer(network: nn.Module, images: Tensor) -> str:
    """Runs the network once more and names the first layer whose parameters or output are not finite."""
    if not torch.isfinite(images).all():  # first: they have spoiled the running statistics on their way
        return "the input images are not finite"
    if (name := first_bad_number(network)) is not None:
        return f"{name} is not finite"
    found: list[str] = []
    handles = []
    for name, module in network.named_modules():
        if next(module.children(), None) is None:

            def check(_: nn.Module, __: Any, output: Any, name: str = name) -> None:
                if isinstance(output, Tensor) and not found and not torch.isfinite(output).all():
                    found.append(name)

            handles.append(module.register_forward_hook(check))
    try:
        with torch.no_grad():
            network(images)
    finally:
        for handle in handles:
            handle.remove()
    return f"layer {found[0]} was the first to go non-finite" if found else "every layer's output is still finite"


def explain(network: nn.Module, images: Tensor) -> tuple[str, str]:
    """Where a lost run went wrong, and what to try."""
    where = first_bad_layer(network, images)
    if where.startswith("the input"):
        return where, "look at the data: it holds NaN or infinity"
    relus = sum(isinstance(m, nn.ReLU) for m in network.modules())
    binary = sum(layer.has_binary_form for _, layer in layers(network))
    if binary and relus >= binary:
        return where, "binary networks with ReLU after every block diverge at larger rates: all-ReLU needs lr 0.00015"
    return where, "try a lower rate (lr), clip_norm=1 or warmup_epochs=1"


def first_bad_number(network: nn.Module) -> str | None:
    """The first parameter or running statistic that is NaN or infinite, by name."""
    for name, tensor in network.state_dict().items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            return name
    return None
