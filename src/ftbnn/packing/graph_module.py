"""A file's operators as a PyTorch module: what there is to run eagerly where the network's own module is not known."""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ftbnn.packing.graph import (
    AverageTo,
    AvgPool,
    BConv,
    Channels,
    Combine,
    Concat,
    Conv,
    Epilogue,
    Flatten,
    Fused,
    Graph,
    Linear,
    Map,
    MaxPool,
    Operator,
    Pointwise,
    RoundedConv,
    Steps,
    Value,
    Window,
)


def _tensor(numbers: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.array(numbers, np.float32))


class GraphModule(nn.Module):
    """Runs the operators one after the other; binary weights are floats +-1."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.steps = nn.ModuleList(_Step(operator) for operator in graph.operators)

    def forward(self, x: Tensor) -> Tensor:
        values: dict[Value, Tensor] = {self.graph.input: x}
        for step, operator in zip(self.steps, self.graph.operators, strict=True):
            values[operator.output] = step(*(values[value] for value in operator.reads()))
        return values[self.graph.output].flatten(1)


class _Step(nn.Module):
    """One operator: its inputs in, and the shortcut last if it has one."""

    scale: Tensor | None
    shift: Tensor | None
    left: Tensor | None
    right: Tensor | None
    first_left: Tensor | None
    first_right: Tensor
    after: Tensor | None
    threshold: Tensor | None

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self.operator = operator
        weights: list[Tensor] = []
        if isinstance(operator, Conv | RoundedConv):
            weights = [_tensor(part) for part in operator.weights]
        elif isinstance(operator, BConv):
            weights = [_tensor(2.0 * part - 1) for part in operator.positive]
        elif isinstance(operator, Linear):
            weights = [_tensor(operator.weight)]
        elif isinstance(operator, Map):
            weights = [_tensor(operator.factors)]
        self.weights = nn.ParameterList(nn.Parameter(weight, requires_grad=False) for weight in weights)
        self._keep("threshold", getattr(operator, "threshold", None))
        if isinstance(operator, Fused):
            for name in ("scale", "shift", "first_left", "first_right", "left", "right", "after"):
                self._keep(name, getattr(operator.epilogue, name))

    def _keep(self, name: str, numbers: NDArray[np.generic] | None) -> None:
        self.register_buffer(name, None if numbers is None else _tensor(numbers).view(1, -1, 1, 1))

    def forward(self, *inputs: Tensor) -> Tensor:
        operator = self.operator
        given = inputs[: len(operator.inputs)]
        if self.threshold is not None:
            given = (given[0] - self.threshold,)
        x = RUN[type(operator)](operator, list(self.weights), *given)
        if not isinstance(operator, Fused):
            return x
        if self.scale is not None:
            x = x * self.scale
        if self.shift is not None:
            x = x + self.shift
        if self.first_left is not None:
            x = _bend(x, self.first_left, self.first_right)
        if operator.epilogue.shortcut is not None:
            x = x + inputs[-1]
        x = self._activate(x, operator.epilogue)
        return x if self.after is None else x + self.after

    def _activate(self, x: Tensor, end: Epilogue) -> Tensor:
        if end.act in CURVES:
            return CURVES[end.act](x)
        if end.act == "clamp":
            return x.clamp(end.low, end.high)
        if self.left is None:
            return x
        if self.right is None:
            return F.prelu(x, self.left.flatten())
        return _bend(x, self.left, self.right)


def _bend(x: Tensor, left: Tensor, right: Tensor) -> Tensor:
    positive = x.clamp_min(0)
    return torch.addcmul(positive * right, x - positive, left)


CURVES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "tanh": torch.tanh,
}


def _conv(operator: Conv | BConv | RoundedConv, weights: list[Tensor], x: Tensor) -> Tensor:
    window = operator.window

    def convolve(part: Tensor, weight: Tensor, groups: int) -> Tensor:
        return F.conv2d(part, weight, None, window.stride, window.padding, 1, groups)

    if len(weights) == 1:
        return convolve(x, weights[0], operator.groups)
    head = weights[0].shape[1] * (operator.groups - 1)
    return torch.cat([convolve(x[:, :head], weights[0], operator.groups - 1), convolve(x[:, head:], weights[1], 1)], 1)


def _bconv(operator: BConv, weights: list[Tensor], x: Tensor) -> Tensor:
    ones = torch.sign(x.clamp_min(0))
    return _conv(operator, weights, ones if operator.zero_one else ones.mul_(2).sub_(1))


def _max_pool(operator: MaxPool, _: list[Tensor], x: Tensor) -> Tensor:
    window = operator.window
    over = _runs_over(operator, window)
    return F.max_pool2d(x, window.kernel, window.stride, window.padding, ceil_mode=over)


def _avg_pool(operator: AvgPool, _: list[Tensor], x: Tensor) -> Tensor:
    window = operator.window
    over = _runs_over(operator, window)
    return F.avg_pool2d(x, window.kernel, window.stride, window.padding, over, operator.whole)


def _runs_over(operator: Operator, window: Window) -> bool:
    """True if the last window covers more than the padding at the top and left would."""
    value, out = operator.inputs[0], operator.output
    sizes = ((value.height, out.height), (value.width, out.width))
    return any(
        (size + 2 * padding - kernel) // stride + 1 < n
        for (size, n), kernel, stride, padding in zip(sizes, window.kernel, window.stride, window.padding, strict=True)
    )


def _steps(operator: Steps, _: list[Tensor], x: Tensor) -> Tensor:
    thresholds = _tensor(operator.thresholds).to(x)[:, :, None, None]
    return torch.stack([x > row for row in thresholds.unbind(1)]).sum(0).to(x)


RUN: dict[type[Operator], Callable[..., Tensor]] = {
    Conv: _conv,
    BConv: _bconv,
    RoundedConv: _conv,
    Linear: lambda _, weights, x: F.linear(x.flatten(1), weights[0])[:, :, None, None],
    MaxPool: _max_pool,
    AvgPool: _avg_pool,
    AverageTo: lambda operator, _, x: F.adaptive_avg_pool2d(x, (operator.output.height, operator.output.width)),
    Concat: lambda _, __, *parts: torch.cat(parts, 1),
    Channels: lambda operator, _, x: x[:, operator.source],
    Pointwise: lambda _, __, x: x,
    Combine: lambda operator, _, x, other: x + other if operator.is_sum else x * other,
    Map: lambda _, weights, x: x * weights[0],
    Flatten: lambda _, __, x: x.reshape(len(x), -1, 1, 1),
    Steps: _steps,
}
