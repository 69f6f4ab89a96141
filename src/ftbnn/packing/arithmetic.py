"""What works on each number by itself: BatchNorm, non-linearities, sums, constants per channel. All are epilogues."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from ftbnn.packing.graph import ActName, Combine, Epilogue, Map, Pointwise, Steps
from ftbnn.packing.moves import Feature
from ftbnn.packing.step import Step

LARGEST = float(np.finfo(np.float32).max)


def pointwise(step: Step, x: Any, epilogue: Epilogue, *, is_for_signs: bool = False) -> Feature:
    value = step.read(x)
    if x.shape != step.shape:
        raise step.error("spreads a tensor over a larger one (broadcasting)")
    return step.emit(Pointwise(step.path, (value,), step.result(), epilogue, is_for_signs=is_for_signs))


def batch_norm(step: Step) -> Feature:
    mean, variance, weight, bias = (step[name] for name in ("running_mean", "running_var", "weight", "bias"))
    if step.arguments.get("training") or mean is None or variance is None:
        raise step.error("normalises by the statistics of the batch; it needs running statistics")
    scale = (1.0 if weight is None else step.constant(weight)) / np.sqrt(step.constant(variance) + step["eps"])
    shift = (0.0 if bias is None else step.constant(bias)) - step.constant(mean) * scale
    return pointwise(step, step["input"], Epilogue(scale=scale, shift=shift))


def relu(step: Step) -> Feature:
    return pointwise(step, step["self"], Epilogue(act="relu"))


def prelu(step: Step) -> Feature:
    return pointwise(step, step["self"], Epilogue(act="prelu", left=step.per_channel(step["weight"])))


def absolute(step: Step) -> Feature:
    return pointwise(step, step["self"], Epilogue(act="prelu", left=step.per_channel(-1.0)))


def leaky_relu(step: Step) -> Feature:
    return pointwise(step, step["self"], Epilogue(act="prelu", left=step.per_channel(step["negative_slope"])))


def fprelu(step: Step) -> Feature:
    left, right = step.constant(step["left"]), step.constant(step["right"])
    return pointwise(step, step["x"], Epilogue(act="fprelu", left=left, right=right))


def curve(act: ActName) -> Callable[[Step], Feature]:
    """A function that the engine computes as it is."""
    return lambda step: pointwise(step, step["self"], Epilogue(act=act))


def hardtanh(step: Step) -> Feature:
    return _clamp(step, step["min_val"], step["max_val"])


def clamp(step: Step) -> Feature:
    return _clamp(step, step.arguments.get("min"), step.arguments.get("max"))


def _clamp(step: Step, low: Any, high: Any) -> Feature:
    """Both ends are numbers; one that is not given is the last float32."""
    if isinstance(low, Tensor | Feature) or isinstance(high, Tensor | Feature):
        raise step.error("clamps to tensors; only to numbers can be written")
    if low == 0 and high is None:
        return relu(step)
    least = -LARGEST if low is None else max(float(low), -LARGEST)
    most = LARGEST if high is None else min(float(high), LARGEST)
    if not least <= most:
        raise step.error(f"clamps to between {low} and {high}")
    return pointwise(step, step["self"], Epilogue(act="clamp", low=least, high=most))


def add(step: Step) -> Feature:
    return _add(step, step["self"], step["other"], step["alpha"])


def sub(step: Step) -> Feature:
    return _add(step, step["self"], step["other"], -step["alpha"])


def rsub(step: Step) -> Feature:
    return _add(step, step["other"], step["self"], -step["alpha"])


def _add(step: Step, first: Any, second: Any, alpha: float) -> Feature:
    """first + alpha * second, at least one of them a feature."""
    if alpha != 1:
        second = _scaled(step, second, alpha)
    if not isinstance(first, Feature):
        first, second = second, first
    if not isinstance(second, Feature):
        return pointwise(step, first, Epilogue(shift=step.per_channel(second)))
    if first.shape != second.shape:
        return _combine(step, first, second, is_sum=True)
    return pointwise(step, first, Epilogue(shortcut=step.read(second)))


def _combine(step: Step, first: Feature, second: Feature, *, is_sum: bool) -> Feature:
    """Two values, one of which may be spread over the other."""
    if first.shape != step.shape:
        first, second = second, first
    channels, size = second.shape[1:2], second.shape[2:]
    fits = len(second.shape) == len(step.shape) and second.shape[0] == step.shape[0]
    if first.shape != step.shape or not fits or channels[0] not in (1, step.shape[1]):
        raise step.error("spreads a tensor over a larger one in a way that cannot be written (broadcasting)")
    if size not in (step.shape[2:], (1,) * len(size)):
        raise step.error("spreads rows or columns over a larger tensor (broadcasting)")
    inputs = (step.read(first), step.read(second))
    return step.emit(Combine(step.path, inputs, step.result(), is_sum=is_sum))


def _scaled(step: Step, x: Any, factor: Any) -> Any:
    if not isinstance(x, Feature):
        return x * factor
    own = replace(step, shape=x.shape)
    return pointwise(own, x, Epilogue(scale=own.per_channel(factor)))


def steps(step: Step) -> Feature:
    thresholds = step.constant(step["thresholds"])[None]
    return step.emit(Steps(step.path, (step.read(step["x"]),), step.result(), thresholds=thresholds))


def neg(step: Step) -> Feature:
    return pointwise(step, step["self"], Epilogue(scale=step.per_channel(-1)))


def mul(step: Step) -> Feature:
    first, second = step["self"], step["other"]
    if not isinstance(first, Feature):
        first, second = second, first
    if isinstance(second, Feature):
        return _combine(step, first, second, is_sum=False)
    if isinstance(second, Tensor) and (factors := step.per_position(second)) is not None:
        return step.emit(Map(step.path, (step.read(first),), step.result(), factors=factors))
    return pointwise(step, first, Epilogue(scale=step.per_channel(second)))


def div(step: Step) -> Feature:
    if isinstance(step["other"], Feature) or step.arguments.get("rounding_mode") is not None:
        raise step.error("divides by a tensor that depends on the input, or rounds")
    return pointwise(step, step["self"], Epilogue(scale=1 / step.per_channel(step["other"])))
