"""Functions that only move numbers: concatenations, slices, repeats, reshapes, in any number and order.

Each is run on the numbers of the elements in place of the elements. Where a real operator reads the result, that
shows which channel of which value went where, and one concat, one channel map or one flatten says the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ftbnn.packing.graph import Channels, Concat, ExportError, Flatten, NotInFormat, Operator, Value

MOVES = frozenset(
    "cat channel_shuffle expand flip index index_select movedim narrow native_channel_shuffle permute pixel_shuffle "
    "pixel_unshuffle repeat reshape roll select slice split split_with_sizes squeeze stack t tile transpose unbind "
    "unflatten unsafe_split unsqueeze view _reshape_alias _unsafe_view".split()
)
NO_PADDING = (0, 0)
UNPADDED = "pads on its own; only the zero padding of a convolution can be exported"
BATCH = 2  # two images at once, so that a forward that mixes the images of a batch does not go unnoticed


@dataclass(frozen=True, eq=False)
class Feature:
    """A traced tensor: a value, or elements of values moved about (`numbers`).

    `code` is that of the Sign it went through: a binary convolution reads real numbers and takes the signs itself, so
    a Sign only leaves a mark.
    """

    path: str
    shape: tuple[int, ...]
    value: Value | None = None
    numbers: Tensor | None = None
    code: bool | None = None  # None: real; False: {-1, +1}; True: {0, 1}
    padding: tuple[int, int] = NO_PADDING  # zeros at the top and at the left that only a convolution can take


class Moves:
    """Numbers the elements of values, and turns moved numbers back into operators."""

    def __init__(self, emit: Callable[[Operator], Value]) -> None:
        self.emit = emit
        self.values: list[Value] = []
        self.starts = [0]  # the elements of values[k], image after image, are starts[k] to starts[k + 1]
        self.known: dict[tuple[object, ...], Value] = {}

    def numbers(self, feature: Feature) -> Tensor:
        if feature.padding != NO_PADDING:
            raise NotInFormat(feature.path, UNPADDED)
        if feature.numbers is not None:
            return feature.numbers.contiguous()
        assert feature.value is not None
        if feature.value not in self.values:
            self.values.append(feature.value)
            self.starts.append(self.starts[-1] + BATCH * feature.value.size)
        start = self.starts[self.values.index(feature.value)]
        return torch.arange(start, start + BATCH * feature.value.size).reshape(feature.shape)

    def apply(self, path: str, run: Callable[[Callable[[Feature], Tensor]], Any]) -> Any:
        """What a function gives on numbers: `run` calls it, with what turns a feature into them."""
        codes: set[bool | None] = set()

        def numbers(feature: Feature) -> Tensor:
            codes.add(feature.code)
            return self.numbers(feature)

        result = run(numbers)
        if len(codes) > 1:
            raise NotInFormat(path, "joins codes of different kinds ({-1, +1}, {0, 1} or real)")
        code = codes.pop()

        def wrap(moved: Any) -> Any:
            if isinstance(moved, Tensor):
                return Feature(path, tuple(moved.shape), numbers=moved, code=code)
            return tuple(map(wrap, moved))

        return wrap(result)

    def settle(self, feature: Feature) -> Value:
        """The value that holds the feature's numbers, made by operators where it is not there yet."""
        if feature.value is not None:
            return feature.value
        assert feature.numbers is not None
        shape, numbers = feature.shape, feature.numbers.numpy()
        if len(shape) not in (2, 4) or shape[0] != BATCH:
            raise NotInFormat(feature.path, f"gives {describe(shape)}; only maps and vectors per image can be exported")
        height, width = shape[2:] if len(shape) == 4 else (1, 1)
        numbers = numbers.reshape(BATCH, shape[1], height * width)
        owner = np.searchsorted(self.starts, numbers[0], side="right") - 1
        sizes = np.array([value.size for value in self.values])
        at = numbers[0] - np.array(self.starts)[owner]
        if (at >= sizes[owner]).any() or (numbers[1] - numbers[0] != sizes[owner]).any():
            raise ExportError(feature.path, "mixes the images of a batch")
        sources = list(dict.fromkeys(owner.ravel().tolist()))
        flat = height * width == 1
        if not flat and any((self.values[k].height, self.values[k].width) != (height, width) for k in sources):
            raise NotInFormat(feature.path, "moves pixels; only whole channels can be moved")
        pixels = height * width  # of a source too, once it is flat where the result is
        if (owner != owner[:, :1]).any() or (at != at[:, :1] // pixels * pixels + np.arange(pixels)).any():
            raise NotInFormat(feature.path, "moves pixels; only whole channels can be moved")
        values = [self._flat(feature.path, self.values[k]) if flat else self.values[k] for k in sources]
        bases = dict(zip(sources, np.cumsum([0, *(value.channels for value in values)]).tolist(), strict=False))
        source = np.array([bases[k] for k in owner[:, 0].tolist()]) + at[:, 0] // pixels
        return self._select(feature.path, self._join(feature.path, values), source.astype(np.int32))

    def _once(self, key: tuple[object, ...], operator: Operator) -> Value:
        if key not in self.known:
            self.known[key] = self.emit(operator)
        return self.known[key]

    def _flat(self, path: str, value: Value) -> Value:
        if value.height * value.width == 1:
            return value
        return self._once(("flatten", value), Flatten(path, (value,), Value(value.size, 1, 1)))

    def _join(self, path: str, values: list[Value]) -> Value:
        if len(values) == 1:
            return values[0]
        channels = sum(value.channels for value in values)
        output = Value(channels, values[0].height, values[0].width)
        return self._once(("concat", *values), Concat(path, tuple(values), output))

    def _select(self, path: str, value: Value, source: NDArray[np.int32]) -> Value:
        if np.array_equal(source, np.arange(value.channels)):
            return value
        output = Value(len(source), value.height, value.width)
        return self._once(("channels", value, source.tobytes()), Channels(path, (value,), output, source=source))


def describe(shape: tuple[int, ...] | None) -> str:
    """A shape with its batch, in words."""
    return "several tensors" if shape is None else f"a tensor of shape ({', '.join(map(str, ('N', *shape[1:])))})"
