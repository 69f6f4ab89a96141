"""Convolutions, signs and matrices. Binary is a convolution whose input went through a Sign and whose weights are
+-s with one s per output channel, however it was written."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from ftbnn import nn
from ftbnn.export.call import Call, Pair, pair
from ftbnn.export.graph import BConv, Conv, Epilogue, Linear
from ftbnn.export.moves import Feature, describe


def conv2d(  # noqa: PLR0917 - PyTorch's signature
    call: Call,
    input: Feature,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Pair = 1,
    padding: Pair | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Feature:
    if pair(dilation) != (1, 1):
        raise call.error(f"dilation {pair(dilation)} is not supported")
    if isinstance(padding, str):
        padding = [(size - 1) // 2 for size in weight.shape[2:]] if padding == "same" else 0
    return _convolve(call, input, [weight], bias=bias, stride=stride, padding=padding, groups=groups)


def bconv_layer(call: Call, layer: nn.BConv, x: Feature) -> Feature:
    weights = [layer.effective_weight(layer.proxies(part)) for part in layer.parts]
    return _convolve(call, x, weights, bias=None, stride=layer.stride, padding=layer.padding, groups=layer.groups)


def _convolve(
    call: Call,
    x: Feature,
    parts: Sequence[Tensor],
    *,
    bias: Tensor | None,
    stride: Pair,
    padding: Pair,
    groups: int,
) -> Feature:
    weights = tuple(call.constant(part) for part in parts)
    window = call.window(weights[0].shape[2:], stride, padding)
    shift = None if bias is None else call.constant(bias)
    value = call.read(x, takes_codes=True)
    if x.code is None:
        real = Conv(
            call.path, (value,), call.result(), Epilogue(shift=shift), window=window, groups=groups, weights=weights
        )
        return call.emit(real)
    magnitudes = [np.abs(weight) for weight in weights]
    if any((magnitude != magnitude[:, :1, :1, :1]).any() for magnitude in magnitudes):
        raise call.error("has real weights and reads the codes of a Sign; only binary weights can")
    scale = np.concatenate([magnitude[:, 0, 0, 0] for magnitude in magnitudes])
    binary = BConv(
        call.path,
        (value,),
        call.result(),
        Epilogue(scale=None if (scale == 1).all() else scale, shift=shift),
        window=window,
        groups=groups,
        zero_one=x.code,
        positive=tuple(weight > 0 for weight in weights),
    )
    return call.emit(binary)


def sign(call: Call, x: Feature, *, zero_one: bool = False, bound: float = 0) -> Feature:  # noqa: ARG001
    return replace(x, code=zero_one)


def sign_layer(call: Call, layer: nn.Sign, x: Feature) -> Feature:
    if layer.mode == "tanh":
        raise call.error("is a tanh, as in the first step of multi-step training; export a later step")
    return x if layer.mode == "identity" else sign(call, x, zero_one=layer.zero_one)


def linear(call: Call, input: Feature, weight: Tensor, bias: Tensor | None = None) -> Feature:
    if len(input.shape) != 2:
        raise call.error(f"reads {describe(input.shape)}; flatten it to (N, features) first")
    end = Epilogue(shift=None if bias is None else call.constant(bias))
    return call.emit(Linear(call.path, (call.read(input),), call.result(), end, weight=call.constant(weight)))


def pad(call: Call, input: Feature, pad: Pair, mode: str = "constant", value: float | None = None) -> Feature:  # noqa: ARG001
    raise call.error(f"pads on its own ({mode}); only the zero padding of a convolution or pool is supported")
