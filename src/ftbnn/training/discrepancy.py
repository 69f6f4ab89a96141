"""What binarization changes: the mean of |binary convolution - real convolution| per layer (paper, figure 2).

The real one convolves the unbinarized input with the proxy weights.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.nn import BConv, Sign


@torch.no_grad()
def discrepancy(network: nn.Module, images: Tensor) -> dict[str, float]:
    """Layer -> discrepancy over the images, for every BConv (each stands behind a Sign); 0 where nothing is binary."""
    found: dict[str, float] = {}
    before: list[Tensor] = []  # what the last Sign was given
    handles = []
    for name, module in network.named_modules():
        if isinstance(module, Sign):
            handles.append(module.register_forward_pre_hook(lambda _, args: before.append(args[0])))
        elif isinstance(module, BConv):

            def compare(conv: BConv, _: Any, output: Tensor, name: str = name) -> None:
                mode, conv.mode = conv.mode, "real"
                found[name] = (output - BConv.forward(conv, before.pop())).abs().mean().item()
                conv.mode = mode

            handles.append(module.register_forward_hook(compare))
    try:
        network.eval()(images)
    finally:
        for handle in handles:
            handle.remove()
    return found
