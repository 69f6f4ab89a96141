"""The graph of a .ftbnn file: values, and the operators of docs/format.md that write them.

Numbers of an epilogue are float64 until the file is written, so that folding rounds once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
ActName = Literal["none", "relu", "prelu", "fprelu"]


@dataclass(frozen=True, eq=False)
class Value:
    """What an operator writes, for one image. Two values of one shape are two values."""

    channels: int
    height: int
    width: int

    @property
    def size(self) -> int:
        return self.channels * self.height * self.width


@dataclass(frozen=True)
class Window:
    """Height before width; the padding is that at the top and at the left."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Epilogue:
    """y = act(scale[c] * acc + shift[c] + shortcut), for what is not None."""

    scale: Numbers | None = None
    shift: Numbers | None = None
    shortcut: Value | None = None
    act: ActName = "none"
    left: Numbers | None = None
    right: Numbers | None = None


@dataclass
class Operator:
    """Reads values, writes one. `path` is the layer it came from."""

    kind: ClassVar[int]
    path: str
    inputs: tuple[Value, ...]
    output: Value

    def reads(self) -> Iterator[Value]:
        yield from self.inputs


@dataclass
class Fused(Operator):
    """An operator that ends in an epilogue. `folded` are the layers that became part of it."""

    epilogue: Epilogue = field(default_factory=Epilogue)
    folded: tuple[str, ...] = ()

    def reads(self) -> Iterator[Value]:
        yield from self.inputs
        if self.epilogue.shortcut is not None:
            yield self.epilogue.shortcut


@dataclass
class Conv(Fused):
    """Real weights. One (out, in of group, kh, kw) array, or two where the last group is larger than the others."""

    kind = 1
    window: Window = field(kw_only=True)
    groups: int = field(kw_only=True)
    weights: tuple[NDArray[Any], ...] = field(kw_only=True)


@dataclass
class BConv(Fused):
    """Binary weights on the codes of its input. `positive` is where a weight is +1, in arrays as Conv's weights."""

    kind = 2
    window: Window = field(kw_only=True)
    groups: int = field(kw_only=True)
    zero_one: bool = field(kw_only=True)
    positive: tuple[NDArray[np.bool_], ...] = field(kw_only=True)


@dataclass
class Linear(Fused):
    """A matrix (out, in) times a vector."""

    kind = 3
    weight: NDArray[Any] = field(kw_only=True)


@dataclass
class MaxPool(Operator):
    kind = 4
    window: Window = field(kw_only=True)


@dataclass
class AvgPool(Operator):
    """`whole` divides by the size of the window, else by that of its part inside the image."""

    kind = 5
    window: Window = field(kw_only=True)
    whole: bool = field(kw_only=True)


@dataclass
class AverageTo(Operator):
    kind = 6


@dataclass
class Concat(Operator):
    kind = 7


@dataclass
class Channels(Operator):
    """Output channel c is input channel source[c]."""

    kind = 8
    source: NDArray[np.int32] = field(kw_only=True)


@dataclass
class Pointwise(Fused):
    kind = 9


@dataclass
class Flatten(Operator):
    kind = 10


@dataclass(frozen=True)
class Graph:
    """Operators, each behind those whose values it reads."""

    input: Value
    output: Value
    operators: tuple[Operator, ...]
