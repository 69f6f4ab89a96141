"""A .ftbnn file as a network again. Signs, slopes and real weights are in it; proxies and statistics are found again.

proxies      the file's signs times the mean magnitude that the layer starts with
BatchNorm    the file has scale * x + shift; with any mean and variance, weight = scale * sqrt(variance + eps) and
             bias = shift + scale * mean give the same. Training needs those that x has, so images run through once.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from ftbnn.errors import UserError
from ftbnn.nn.layer import Layer, Packed
from ftbnn.nn.piecewise import slopes_of
from ftbnn.packing import graph as kinds
from ftbnn.packing.export import build_graph
from ftbnn.packing.fold import fold
from ftbnn.packing.graph import Fused, Graph, Operator
from ftbnn.tracing import evaluating

ROUNDING = 1e-4  # of what is written into a network and read out again, relative


@torch.no_grad()
def restore(network: nn.Module, given: Graph, path: str | Path, images: Iterable[Tensor] = ()) -> list[str]:
    """Gives `network` the function of a file, and its BatchNorms the statistics of `images`, which training needs
    (without them it `lacks_statistics`); returns the names of the weights that it keeps: those of a classifier of
    another shape."""
    was_training, network = network.training, network.eval()
    batches = iter(images)
    first = next(batches, None)
    example = torch.zeros(1, given.input.channels, given.input.height, given.input.width) if first is None else first
    own, others = _learned(build_graph(network, example)), _learned(fold(given))
    keeps = own[-1].path if own and others and _is_other_classifier(own[-1], others[-1]) else None
    _check_same(own, others, keeps, path)
    modules = dict(network.named_modules())
    for mine, other in zip(own, others, strict=True):
        if mine.path != keeps:
            names = dict.fromkeys((mine.path, *mine.folded))
            try:
                _take([modules[name] for name in names if name in modules], other, mine)
            except RuntimeError as error:  # of shapes that are not the layer's
                raise _not_taken(path, mine) from error
    for mine, other in zip(_learned(build_graph(network, example)), others, strict=True):
        if mine.path != keeps and not _equal(mine, other):
            raise _not_taken(path, mine)
    _check_others(build_graph(network, example), given, path)
    for norm in filter(_learns, network.modules()):
        norm.lacks_statistics = True  # type: ignore[assignment]
    if first is not None:
        measure(network, chain([first], batches))
    network.train(was_training)
    return [name for name, _ in network.named_parameters() if name.rpartition(".")[0] == keeps]


def _not_taken(path: str | Path, operator: Operator) -> UserError:
    what = f"{operator.path} is not made of layers that take numbers back"
    return UserError(f"cannot go on from {path}: {what}; give the run or checkpoint that it is of")


def _check_others(own: Graph, given: Graph, path: str | Path) -> None:
    """Numbers between the operators that learn: nothing writes them back, so they must be the same."""

    def found(graph: Graph) -> list[tuple[Operator, NDArray[Any]]]:
        return [
            (operator, operator.factors if isinstance(operator, kinds.Map) else operator.thresholds)
            for operator in graph.operators
            if isinstance(operator, kinds.Map | kinds.Steps)
        ]

    for (mine, here), (_, there) in zip(found(own), found(given), strict=True):
        if not np.allclose(here, there, rtol=ROUNDING, atol=ROUNDING * np.abs(there).max(initial=0)):
            raise _not_taken(path, mine)


def _learned(graph: Graph) -> list[Fused]:
    """The operators with numbers of their own: what is between them may depend on the size of the images."""
    return [operator for operator in graph.operators if isinstance(operator, Fused)]


def _is_other_classifier(mine: Fused, other: Fused) -> bool:
    return isinstance(mine, kinds.Linear) and mine.path == other.path and _shapes(mine) != _shapes(other)


def _check_same(own: list[Fused], others: list[Fused], keeps: str | None, path: str | Path) -> None:
    if len(own) != len(others):
        raise UserError(f"{path} is of another network: {len(others)} of its operators learn, {len(own)} do here")
    for mine, other in zip(own, others, strict=True):
        if type(mine) is not type(other) or mine.path != other.path or _settings(mine) != _settings(other):
            raise UserError(f"{path} is of another network, or stem: its {other.path} differs from {mine.path} here")
        for there, here in zip(_shapes(other), _shapes(mine), strict=True):
            if mine.path != keeps and there != here:
                what = f"its {other.path} is {there}, here it is {here}"
                raise UserError(f"{path} is of another network: {what}; width and stem must be the file's")


def _settings(operator: Fused) -> list[Any]:
    end = operator.epilogue
    ends = np.array([end.low, end.high], np.float32).tolist()
    return [
        end.act,
        end.has_pieces,
        ends,
        *(getattr(operator, name, None) for name in ("window", "groups", "zero_one", "bits")),
    ]


def _numbers(operator: Fused) -> Iterator[NDArray[Any]]:
    """What is learned, the weights first; a scale that is not there is 1, a shift or threshold 0."""
    if isinstance(operator, kinds.Conv | kinds.RoundedConv):
        yield from operator.weights
    elif isinstance(operator, kinds.BConv):
        yield from operator.positive
        yield _or(operator.threshold, np.zeros(operator.inputs[0].channels))
    elif isinstance(operator, kinds.Linear):
        yield operator.weight
    end, channels = operator.epilogue, operator.output.channels
    yield _or(end.scale, np.ones(channels))
    yield _or(end.shift, np.zeros(channels))
    yield from (slope for slope in (end.left, end.right, end.first_left, end.first_right) if slope is not None)
    yield _or(end.after, np.zeros(channels))


def _or(numbers: NDArray[Any] | None, absent: NDArray[Any]) -> NDArray[Any]:
    return absent if numbers is None else numbers


def _shapes(operator: Fused) -> list[tuple[int, ...]]:
    return [array.shape for array in _numbers(operator)]


def _equal(mine: Fused, other: Fused) -> bool:
    return all(
        np.allclose(a, b, rtol=ROUNDING, atol=ROUNDING * np.abs(b).max(initial=0))
        for a, b in zip(_numbers(mine), _numbers(other), strict=True)
    )


def _packed(operator: Fused) -> Packed:
    """An operator's numbers as layers take them back."""

    def tensor(numbers: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.array(numbers))

    end, channels = operator.epilogue, operator.output.channels
    packed = Packed(tensor(_or(end.scale, np.ones(channels))), tensor(_or(end.shift, np.zeros(channels))))
    packed.after = tensor(_or(end.after, np.zeros(channels)))
    if end.left is not None:
        packed.left = tensor(end.left)
    if end.right is not None:
        packed.right = tensor(end.right)
    if isinstance(operator, kinds.BConv):
        packed.positive = [tensor(part) for part in operator.positive]
        packed.threshold = tensor(_or(operator.threshold, np.zeros(operator.inputs[0].channels)))
    elif isinstance(operator, kinds.Conv | kinds.RoundedConv):
        packed.weights = [tensor(part) for part in operator.weights]
    elif isinstance(operator, kinds.Linear):
        packed.weights = [tensor(operator.weight)]
    return packed


def _take(layers: list[nn.Module], operator: Fused, mine: Fused) -> None:
    """Writes an operator's numbers into the layers that it is made of; what that cannot express, `_equal` finds."""
    packed, end = _packed(operator), operator.epilogue
    last = packed.left, packed.right
    if end.first_left is not None and end.first_right is not None:
        packed.left, packed.right = torch.from_numpy(end.first_left), torch.from_numpy(end.first_right)
    has_norm = any(isinstance(layer, BatchNorm) for layer in layers)
    # Thresholds that no sign has learned are those of a BatchNorm in front; then there is none behind.
    learns = any(isinstance(layer, Layer) and layer.input_shift() is not None for layer in layers)
    is_before = has_norm and isinstance(mine, kinds.BConv) and mine.threshold is not None and not learns
    packed.has_norm = has_norm and not is_before
    if is_before:
        for norm in (layer for layer in layers if isinstance(layer, BatchNorm) and _learns(layer)):
            norm.reset_running_stats()
            norm.weight.fill_((1 + norm.eps) ** 0.5)
            norm.bias.copy_(-cast("Tensor", packed.threshold))
        layers = [layer for layer in layers if not isinstance(layer, BatchNorm)]
    for layer in layers:
        if isinstance(layer, Layer):
            layer.adopt(packed)
        elif isinstance(layer, nn.Conv2d | nn.Linear) and packed.weights is not None:
            layer.weight.copy_(packed.weights[0].reshape(layer.weight.shape))
            if layer.bias is not None:
                layer.bias.copy_(0 * packed.shift if has_norm else packed.shift)
        elif isinstance(layer, BatchNorm) and _learns(layer):
            layer.reset_running_stats()  # to mean 0 and variance 1
            layer.weight.copy_(packed.scale * (1 + layer.eps) ** 0.5)
            layer.bias.copy_(packed.shift)
        elif isinstance(layer, nn.PReLU) and packed.left is not None:
            layer.weight.copy_(packed.left[: layer.num_parameters])
        if slopes_of(layer, operator.output.channels) is not None:  # behind the first non-linearity is the last one
            packed.left, packed.right = last


def lacks_statistics(network: nn.Module) -> bool:
    """Whether it is from a file and has not seen images: what its BatchNorms would do in training is another thing."""
    return any(getattr(module, "lacks_statistics", False) for module in network.modules())


@torch.no_grad()
def measure(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Gives each BatchNorm the statistics of its input and leaves its function in evaluation as it is."""
    sums: dict[nn.Module, list[Any]] = {}

    def add(norm: nn.Module, inputs: Any) -> None:
        x = inputs[0]
        rest = [0, *range(2, x.dim())]
        squares = torch.linalg.vector_norm(x, dim=rest, dtype=torch.float64).square()
        found = x.numel() // x.shape[1], x.sum(rest, dtype=torch.float64), squares
        sums[norm] = [before + more for before, more in zip(sums.get(norm, (0, 0, 0)), found, strict=True)]

    norms = [module for module in network.modules() if _learns(module)]
    handles = [norm.register_forward_pre_hook(add) for norm in norms]
    try:
        with evaluating(network):
            for images in batches:
                network(images)
    finally:
        for handle in handles:
            handle.remove()
    for norm, (count, total, squares) in sums.items():
        mean = total / count
        _restate(cast("BatchNorm", norm), mean, (squares / count - mean.square()).clamp_min(0))
    for norm in norms:
        norm.lacks_statistics = False  # type: ignore[assignment]


def _learns(module: nn.Module) -> bool:
    return isinstance(module, BatchNorm) and module.affine and module.track_running_stats


def _restate(norm: BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Other statistics, the same function."""
    was_mean, was_variance = cast("Tensor", norm.running_mean), cast("Tensor", norm.running_var)
    scale = norm.weight.double() / (was_variance.double() + norm.eps).sqrt()
    norm.bias.add_(scale * (mean - was_mean))
    norm.weight.copy_(scale * (variance + norm.eps).sqrt())
    was_mean.copy_(mean)
    was_variance.copy_(variance)
