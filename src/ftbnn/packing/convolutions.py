"""Convolutions, signs and matrices. Binary is a convolution whose input went through a Sign and whose weights are
+-s with one s per output channel, however it was written; rounded is one whose weights went through `nn.rounded`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from ftbnn.nn.rounded import whole_numbers
from ftbnn.packing.arithmetic import pointwise
from ftbnn.packing.graph import BConv, Conv, Epilogue, Linear, RoundedConv
from ftbnn.packing.moves import UNPADDED, Feature, describe
from ftbnn.packing.step import Step, pair


def convolution(step: Step) -> Feature:
    if step["transposed"]:
        raise step.error("is a transposed convolution")
    return _convolve(step, step["input"], [step["weight"]], bias=step["bias"])


def bconv(step: Step) -> Feature:
    """Ours: any groups, the last one's weights apart where they are uneven."""
    parts = [w for w in (step["weight"], step["tail"]) if w is not None]
    return _convolve(step, step["x"], parts, bias=None, is_ours=True)


def _convolve(
    step: Step, x: Feature, parts: Sequence[Tensor], *, bias: Tensor | None, is_ours: bool = False
) -> Feature:
    if pair(step["dilation"]) != (1, 1):
        raise step.error(f"has dilation {pair(step['dilation'])}")
    if len(step.shape) != 4:
        raise step.error(f"gives {describe(step.shape)}; only convolutions of maps can be exported")
    weights = tuple(step.constant(part) for part in parts)
    value = step.read(x, takes_codes=True, takes_padding=True)
    padding = [own + before for own, before in zip(pair(step["padding"]), x.padding, strict=True)]
    window = step.window(weights[0].shape[2:], step["stride"], padding)
    shift = None if bias is None else step.constant(bias)
    common: dict[str, Any] = {"window": window, "groups": step["groups"]}
    if x.code is None and id(parts[0]) in step.rounded:
        weight, bits = step.rounded[id(parts[0])]
        integers, unit = whole_numbers(weight.detach(), bits)
        whole = (integers.cpu().numpy().astype(f"i{bits // 8}"),)
        made = RoundedConv(
            step.path,
            (value,),
            step.result(),
            Epilogue(shift=shift),
            **common,
            bits=bits,
            integers=whole,
            unit=step.constant(unit),
        )
        return step.emit(made)
    magnitudes = [np.abs(weight) for weight in weights]
    are_signs = all((magnitude == magnitude[:, :1, :1, :1]).all() for magnitude in magnitudes)
    scale = np.concatenate([magnitude[:, 0, 0, 0] for magnitude in magnitudes])
    if x.code is None and is_ours and are_signs and (scale > 0).all():
        # Signs on real numbers: whole multiples of the channel's magnitude.
        end = Epilogue(shift=shift)
        ones = tuple(np.sign(weight).astype(np.int8) for weight in weights)
        made = RoundedConv(step.path, (value,), step.result(), end, **common, bits=8, integers=ones, unit=scale)
        return step.emit(made)
    if x.code is None:
        return step.emit(Conv(step.path, (value,), step.result(), Epilogue(shift=shift), **common, weights=weights))
    if not are_signs:
        raise step.error("has real weights and reads the codes of a Sign; only binary weights can")
    end = Epilogue(scale=None if (scale == 1).all() else scale, shift=shift)
    positive = tuple(weight > 0 for weight in weights)
    binary = BConv(step.path, (value,), step.result(), end, **common, zero_one=x.code, positive=positive)
    return step.emit(binary)


def sign(step: Step) -> Feature:
    """A binary convolution takes the signs of what it reads; what is added before will be its threshold."""
    x: Feature = step["x"]
    if step["shift"] is not None:
        shape = (-1, *[1] * (len(step.shape) - 2))
        shift = step.per_channel(step["shift"].view(shape))
        x = pointwise(step, x, Epilogue(shift=shift), is_for_signs=True)
    return replace(x, code=step["zero_one"])


def addmm(step: Step) -> Feature:
    if step["beta"] != 1 or step["alpha"] != 1:
        raise step.error("scales a matrix product")
    return _linear(step, step["mat1"], step["mat2"], step["self"])


def mm(step: Step) -> Feature:
    return _linear(step, step["self"], step["mat2"], None)


def _linear(step: Step, x: Feature, matrix: Tensor, bias: Tensor | None) -> Feature:
    shift = None if bias is None else step.per_channel(bias)
    weight = step.constant(matrix).T
    return step.emit(Linear(step.path, (step.read(x),), step.result(), Epilogue(shift=shift), weight=weight))


def pad(step: Step) -> Feature:
    """Zeros around a map: a convolution behind them takes them as its padding, and its output's size says how far it
    runs."""
    x: Feature = step["self"]
    left, _, top, _ = [*step["pad"], 0, 0, 0, 0][:4]
    if step["value"] != 0 or min(step["pad"]) < 0 or len(x.shape) != 4 or any(step["pad"][4:]):
        raise step.error(UNPADDED)
    return replace(x, path=step.path, shape=step.shape, padding=(x.padding[0] + top, x.padding[1] + left))
