"""What works on each number by itself: BatchNorm, non-linearities, sums, constants per channel. All are epilogues."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from ftbnn.packing.graph import ActName, Epilogue, Pointwise
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
    shortcut = step.read(second)
    if second.shape != step.shape:
        raise step.error("spreads a tensor over a larger one (broadcasting)")
    return pointwise(step, first, Epilogue(shortcut=shortcut))


def _scaled(step: Step, x: Any, factor: Any) -> Any:
    return pointwise(step, x, Epilogue(scale=step.per_channel(factor))) if isinstance(x, Feature) else x * factor


def neg(step: Step) -> Feature:
    return pointwise(step, step["self"], Epilogue(scale=step.per_channel(-1)))


def mul(step: Step) -> Feature:
    first, second = step["self"], step["other"]
    if not isinstance(first, Feature):
        first, second = second, first
    if isinstance(second, Feature):
        raise step.error("multiplies two tensors that depend on the input")
    return pointwise(step, first, Epilogue(scale=step.per_channel(second)))


def div(step: Step) -> Feature:
    if isinstance(step["other"], Feature) or step.arguments.get("rounding_mode") is not None:
        raise step.error("divides by a tensor that depends on the input, or rounds")
    return pointwise(step, step["self"], Epilogue(scale=1 / step.per_channel(step["other"])))
