"""A function of each number that is constant between edges, with a gradient that is so too, in one pass each way.

    out = heights[step],  step = how many edges x is greater than;    dL/dx = dL/dout * slopes[step]

Inputs of several levels are such functions (nn/levels.py). Of heights the gradient is the sum of those with that step.
"""

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from ftbnn.nn.native.core import core, is_in_use, is_map, is_plain
from ftbnn.nn.native.operation import Operation, Room, Tensors, map_room


class Settings(NamedTuple):
    """There are none."""


class StairsOperation(Operation):
    name = "stairs"
    settings = Settings
    required: ClassVar[tuple[str, ...]] = ("x", "edges", "heights", "slopes")
    optional: ClassVar[tuple[str, ...]] = ()
    learned: ClassVar[tuple[str, ...]] = ("x", "heights")
    results: ClassVar[tuple[str, ...]] = ("out", "steps")
    kept: ClassVar[tuple[str, ...]] = ("slopes", "steps")

    def rooms(self, given: Tensors, settings: Settings) -> dict[str, Room]:  # noqa: ARG002
        n, channels, h, w = given["x"].shape
        return {"out": map_room(n, channels, h, w), "steps": Room((n, h, w, channels), torch.uint8)}

    def keep(self, given: Tensors, settings: Settings) -> set[str]:  # noqa: ARG002
        return set(self.kept)

    def gradient_rooms(self, given: Tensors, settings: Settings, wanted: set[str]) -> dict[str, Room]:  # noqa: ARG002
        rooms = {"x": map_room(*given["grad"].shape), "heights": Room(tuple(given["slopes"].shape))}
        return {name: room for name, room in rooms.items() if name in wanted | {"x"}}  # sums are made on the way

    def native(self, given: Tensors, settings: Settings) -> Any:  # noqa: ARG002
        numbers = given["grad"] if "grad" in given else given["x"]
        return core.training.Stairs(size=numbers.numel(), edges=given["slopes"].numel() - 1)

    def plain(self, given: Tensors, settings: Settings) -> Tensors:  # noqa: ARG002
        step = torch.searchsorted(given["edges"], given["x"].contiguous())
        step = torch.where(given["x"].isnan(), 0, step)
        return {"out": given["heights"][step], "steps": step.permute(0, 2, 3, 1).to(torch.uint8).contiguous()}

    def plain_backward(self, given: Tensors, settings: Settings, wanted: set[str]) -> Tensors:
        grad, slopes = given["grad"], given["slopes"]
        step = given["steps"].permute(0, 3, 1, 2).long()
        sums = grad.new_zeros(len(slopes), dtype=torch.float64)
        sums = sums.index_add(0, step.flatten(), grad.flatten().double())
        found = {"x": grad * slopes[step], "heights": sums.to(grad.dtype)}
        return {name: found[name] for name in self.gradient_rooms(given, settings, wanted)}


STAIRS = StairsOperation()


MOST_EDGES = 255  # a step is a byte


def can_climb(x: Tensor, thresholds: Tensor, windows: int = 1) -> bool:
    """Whether the core computes stairs of this, with so many windows of gradients."""
    fits = is_plain(thresholds) and len(thresholds) + 2 * windows <= MOST_EDGES
    return fits and is_in_use() and is_map(x) and torch.is_grad_enabled() and x.requires_grad


class Passes(NamedTuple):
    """Where gradients pass, each with its weight: above `lows`, up to `highs`. Tensors of one dimension."""

    lows: Tensor
    highs: Tensor
    weights: Tensor


def stairs(x: Tensor, thresholds: Tensor, steps: Tensor, passes: Passes, *, first: Tensor | float = 0.0) -> Tensor:
    """`first` and all steps whose threshold x is above. Thresholds that learn have a window each: one that moves up is
    to the gradient as if x moved down."""
    edges = torch.cat([thresholds, passes.lows, passes.highs]).detach().sort().values
    end = edges.new_tensor([torch.inf])
    below, above = torch.cat([-end, edges]), torch.cat([edges, end])
    inside = (below >= passes.lows[:, None]) & (above <= passes.highs[:, None])
    slopes = passes.weights.detach()[:, None] * inside
    heights = first + (steps[:, None] * (below >= thresholds[:, None])).sum(0)
    if thresholds.requires_grad:
        heights = heights - ((thresholds - thresholds.detach())[:, None] * slopes).sum(0)
    given = {"x": x, "edges": edges, "heights": heights, "slopes": slopes.sum(0)}
    out: Tensor = STAIRS.run(given, Settings())["out"]
    return out
