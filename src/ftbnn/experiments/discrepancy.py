"""What binarization changes: the mean of |binary convolution - real convolution| per layer (paper, figure 2).

The real one convolves the unbinarized input with the proxy weights. The caption means the convolutions' outputs; the
paper's text calls the same number a discrepancy of features. A BatchNorm follows, so that there are three readings:

outputs      b - r, as the convolutions give them
deviations   (b - r) / sqrt(var + eps): against the spread of b's channel, which BatchNorm divides out
features     gamma (b - r) / sqrt(var + eps): what reaches the sum with the shortcut
"""

from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.nn import set_mode
from ftbnn.nn.layer import layers

READINGS = ("outputs", "deviations", "features")


@torch.no_grad()
def discrepancy(network: nn.Module, images: Tensor) -> dict[str, dict[str, float]]:
    """Reading -> layer -> discrepancy over the images, for every binary convolution; 0 where nothing is binary.

    Every convolution has its BatchNorm beside it, as `norm`.
    """
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
    found: dict[str, dict[str, float]] = {reading: {} for reading in READINGS}
    for name, layer in convolutions.items():
        modes = {side: side.mode for side in layer.modules() if hasattr(side, "mode")}
        set_mode(layer, activations="identity", weights="real")
        per_channel = (outputs[name] - layer(inputs[name])).abs().mean((0, 2, 3))
        for side, mode in modes.items():
            side.set_mode(mode)  # type: ignore[operator]
        norm = network.get_submodule(name.rpartition(".")[0]).norm
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_var is not None
        deviation = (norm.running_var + norm.eps).sqrt()
        for reading, scale in zip(READINGS, (1.0, 1 / deviation, norm.weight.abs() / deviation), strict=True):
            found[reading][name] = (per_channel * scale).mean().item()
    return found
