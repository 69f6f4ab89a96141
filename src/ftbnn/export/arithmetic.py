"""What works on each number by itself: BatchNorm, non-linearities, sums, constants per channel. All are epilogues."""

from typing import Any

import numpy as np
from torch import Tensor

from ftbnn import nn
from ftbnn.export.call import Call
from ftbnn.export.graph import Epilogue, Pointwise
from ftbnn.export.moves import Feature


def _pointwise(call: Call, x: Any, epilogue: Epilogue) -> Feature:
    value = call.read(x)
    if x.shape != call.shape:
        raise call.error("spreads a tensor over a larger one (broadcasting)")
    return call.emit(Pointwise(call.path, (value,), call.result(), epilogue))


def batch_norm(  # noqa: PLR0917 - PyTorch's signature
    call: Call,
    input: Feature,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,  # noqa: ARG001
    eps: float = 1e-5,
) -> Feature:
    if training or running_mean is None or running_var is None:
        raise call.error("normalises by the statistics of the batch; it needs running statistics")
    scale = (1.0 if weight is None else call.constant(weight)) / np.sqrt(call.constant(running_var) + eps)
    shift = (0.0 if bias is None else call.constant(bias)) - call.constant(running_mean) * scale
    return _pointwise(call, input, Epilogue(scale=scale, shift=shift))


def relu(call: Call, input: Feature, inplace: bool = False) -> Feature:  # noqa: ARG001
    return _pointwise(call, input, Epilogue(act="relu"))


def prelu(call: Call, input: Feature, weight: Tensor) -> Feature:
    left = np.broadcast_to(call.constant(weight), call.shape[1:2])
    return _pointwise(call, input, Epilogue(act="prelu", left=left))


def leaky_relu(call: Call, input: Feature, negative_slope: float = 0.01, inplace: bool = False) -> Feature:  # noqa: ARG001
    return _pointwise(call, input, Epilogue(act="prelu", left=call.per_channel(negative_slope)))


def fprelu_layer(call: Call, layer: nn.FPReLU, x: Feature) -> Feature:
    return _pointwise(call, x, Epilogue(act="fprelu", left=call.constant(layer.left), right=call.constant(layer.right)))


def dropout(call: Call, input: Feature, p: float = 0.5, training: bool = True, inplace: bool = False) -> Feature:  # noqa: ARG001
    if training and p > 0:
        raise call.error("drops at random in evaluation too; give it training=self.training")
    return input


def add(call: Call, input: Any, other: Any, *, alpha: float = 1) -> Feature:
    if alpha != 1:
        other = mul(call, other, alpha) if isinstance(other, Feature) else other * alpha
    if not isinstance(input, Feature):
        input, other = other, input
    if not isinstance(other, Feature):
        return _pointwise(call, input, Epilogue(shift=call.per_channel(other)))
    shortcut = call.read(other)
    if other.shape != call.shape:
        raise call.error("spreads a tensor over a larger one (broadcasting)")
    return _pointwise(call, input, Epilogue(shortcut=shortcut))


def sub(call: Call, input: Any, other: Any, *, alpha: float = 1) -> Feature:
    return add(call, input, other, alpha=-alpha)


def neg(call: Call, input: Feature) -> Feature:
    return mul(call, input, -1)


def mul(call: Call, input: Any, other: Any) -> Feature:
    if not isinstance(input, Feature):
        input, other = other, input
    if isinstance(other, Feature):
        raise call.error("multiplies two tensors that depend on the input")
    return _pointwise(call, input, Epilogue(scale=call.per_channel(other)))


def div(call: Call, input: Any, other: Any, *, rounding_mode: str | None = None) -> Feature:
    if isinstance(other, Feature) or rounding_mode is not None:
        raise call.error("divides by a tensor that depends on the input, or rounds")
    return _pointwise(call, input, Epilogue(scale=1 / call.per_channel(other)))
