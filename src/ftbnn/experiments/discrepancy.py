"""What binarization changes: the mean of |binary convolution - real convolution| per layer (paper, figure 2).

The real one convolves the unbinarized input with the proxy weights.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.nn import set_mode
from ftbnn.nn.layer import layers


@torch.no_grad()
def discrepancy(network: nn.Module, images: Tensor) -> dict[str, float]:
    """Layer -> discrepancy over the images, for every binary convolution; 0 where nothing is binary."""
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    convolutions = {name: layer for name, layer in layers(network) if layer.has_binary_form}
    handles = []
    for name, layer in convolutions.items():

        def keep(_: nn.Module, args: Any, output: Tensor, name: str = name) -> None:
            inputs[name], outputs[name] = args[0], output

        handles.append(layer.register_forward_hook(keep))
    try:
        network.eval()(images)
    finally:
        for handle in handles:
            handle.remove()
    found = {}
    for name, layer in convolutions.items():
        modes = {side: side.mode for side in layer.modules() if hasattr(side, "mode")}
        set_mode(layer, activations="identity", weights="real")
        found[name] = (outputs[name] - layer(inputs[name])).abs().mean().item()
        for side, mode in modes.items():
            side.set_mode(mode)  # type: ignore[operator]
    return found
