"""CI-BCNN (Wang et al. 2019), its interaction: one channel's result moves another's, along edges that do not change.

    y[b] += gain * ([y[a] >= T] - [y[a] <= -T])    for each edge a -> b of the layer; gradients pass to y[b] alone

Edges are read from a file and come from elsewhere (the paper finds them by reinforcement learning):
{"threshold": T, "edges": {"0": [[a, b, gain], ...]}}, by the number of the binary convolution, in the network's order.
"""

import itertools
import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ftbnn.errors import UserError
from ftbnn.nn.bconv import BConv
from ftbnn.nn.layer import Layer
from ftbnn.nn.levels import steps
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.rules import NO_RULE, Window
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs
from ftbnn.nn.transforms import clamped


class Interaction(Layer):
    """scale(result, x) of a convolution: what other channels add."""

    def __init__(self, channels: int, edges: list[list[float]], threshold: float) -> None:
        super().__init__()
        gains = torch.zeros(channels, channels, 1, 1)
        for source, target, gain in edges:
            gains[int(target), int(source)] += gain
        self.register_buffer("gains", gains)
        self.gains: Tensor
        # Results are whole numbers: at least T is more than T - 1/2.
        self.register_buffer("thresholds", torch.tensor([-threshold, threshold - 0.5]))
        self.thresholds: Tensor

    def forward(self, out: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        sides = steps(out.detach(), self.thresholds.to(out.dtype)) - 1
        return out + F.conv2d(sides, self.gains)


def read(path: Path) -> dict[str, Any]:
    """The file's threshold and edges; raises UserError with what is wrong."""
    try:
        told = json.loads(path.read_text())
        threshold = float(told["threshold"])
        edges = {int(n): [[float(v) for v in edge] for edge in found] for n, found in told["edges"].items()}
        is_whole = all(len(edge) == 3 and edge[0] % 1 == edge[1] % 1 == 0 for edge in itertools.chain(*edges.values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} holds no edges of ci-bcnn: {error}") from error
    if not is_whole or threshold < 1:
        raise UserError(f"{path}: an edge is [channel, channel, gain], and the threshold 1 or more")
    return {"threshold": threshold, "edges": edges}


def interacting(path: str = "") -> Method:
    """The row with the edges of a file; without one it has none, and is BNN with other non-linearities."""
    told: dict[str, Any] = read(Path(path)) if path else {"threshold": 1.0, "edges": {}}
    numbers = itertools.count()

    def conv(shape: Shape) -> BConv:
        edges, scale = told["edges"].get(next(numbers), []), None
        if edges:
            beyond = next((c for edge in edges for c in edge[:2] if not 0 <= c < shape.out_channels), None)
            if beyond is not None:
                raise UserError(f"{path}: there is no channel {beyond:g} among {shape.out_channels}")
            scale = Interaction(shape.out_channels, edges, told["threshold"])
        side = Sign(zero_one=shape.follows_relu, rule=Window(1.0))
        signs = Signs(NO_RULE, projection=clamped)
        return BConv(shape.in_channels, shape.out_channels, **shape.window, input=side, signs=signs, scale=scale)

    return Method(
        "CI-BCNN's interaction: channels move others along edges, ci-bcnn(FILE) has those of a file",
        conv=conv,
        special="ci-bcnn(FILE) reads edges; without a file there are none",
        deploys="where there are edges, two thresholds and a real-valued 1x1 convolution",
        published="ImageNet R18 59.9; CIFAR-10 R20, five times as wide, 91.1, VGG-small 92.5 (not certain)",
        doubt="its search for edges is left out, and its release disagrees with its paper",
    )
