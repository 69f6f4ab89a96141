"""One operator of the trace, as the rules see it: its arguments by name, and the graph that grows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ftbnn.packing.graph import NotInFormat, Numbers, Operator, Value, Window
from ftbnn.packing.moves import NO_PADDING, UNPADDED, Feature, Moves, describe

Pair = int | Sequence[int]
LARGEST_WINDOW = 64  # kernels and strides, docs/format.md


@dataclass(frozen=True)
class Step:
    """The layer it happened in, the shape of its result (with the batch), and its arguments: features, or constants."""

    path: str
    shape: tuple[int, ...]
    arguments: dict[str, Any]
    moves: Moves
    write: Callable[[Operator], Value]
    rounded: Mapping[int, tuple[Tensor, int]] = field(default_factory=dict)  # weights by id: what was rounded, bits

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def error(self, reason: str) -> NotInFormat:
        return NotInFormat(self.path, reason)

    def read(self, x: Any, *, takes_codes: bool = False, takes_padding: bool = False) -> Value:
        """The value of x: real and unpadded, or as it was before its Sign and padding where the caller takes those."""
        if not isinstance(x, Feature):
            raise self.error(f"reads a {type(x).__name__} where it needs a tensor that depends on the input")
        if x.code is not None and not takes_codes:
            raise self.error("reads the codes of a Sign; only a convolution with binary weights can")
        if x.padding != NO_PADDING and not takes_padding:
            raise self.error(UNPADDED)
        return self.moves.settle(x)

    def result(self) -> Value:
        """A new value of the result's shape."""
        if len(self.shape) not in (2, 4):
            raise self.error(f"gives {describe(self.shape)}; only maps and vectors per image can be exported")
        height, width = self.shape[2:] if len(self.shape) == 4 else (1, 1)
        return Value(self.shape[1], height, width)

    def emit(self, operator: Operator, *, code: bool | None = None) -> Feature:
        return Feature(self.path, self.shape, self.write(operator), code=code)

    def per_channel(self, constant: Tensor | float) -> Numbers:
        """A number, or a tensor that broadcasts to the result, as one number per channel."""
        tensor = torch.as_tensor(constant).detach().cpu().double()
        try:
            full = tensor.expand(self.shape).reshape(*self.shape[:2], -1)
        except RuntimeError:
            raise self.error("its constant does not fit the tensor") from None
        if not torch.allclose(full, full[:1, :, :1].expand_as(full), rtol=0, atol=0, equal_nan=True):
            raise self.error("its constant differs within a channel")
        return self.constant(full[0, :, 0])

    def per_position(self, constant: Tensor) -> Numbers | None:
        """A tensor that differs from position to position of a map, and not between channels or images; else None."""
        if len(self.shape) != 4 or constant.dim() < 2 or constant.shape[-2:] != self.shape[2:]:
            return None
        if self.shape[2:] == (1, 1) or constant.numel() != constant.shape[-2] * constant.shape[-1]:
            return None
        return self.constant(constant.reshape(constant.shape[-2:]))

    def constant(self, tensor: Any) -> Numbers:
        """A parameter, a buffer, or what was computed from them."""
        if not isinstance(tensor, Tensor):
            raise self.error("has weights that depend on the input")
        return np.array(tensor.detach().cpu().double().numpy())

    def window(self, kernel: Pair, stride: Pair, padding: Pair) -> Window:
        window = Window(pair(kernel), pair(stride), pair(padding))
        if max(*window.kernel, *window.stride) > LARGEST_WINDOW:
            raise self.error(f"its kernel {window.kernel} or stride {window.stride} is larger than {LARGEST_WINDOW}")
        if any(pad >= size for pad, size in zip(window.padding, window.kernel, strict=True)):
            raise self.error(f"its padding {window.padding} is not smaller than its kernel {window.kernel}")
        return window


def pair(value: Pair) -> tuple[int, int]:
    high, wide = (value, value) if isinstance(value, int) else (*value, *value)[:2]
    return int(high), int(wide)
