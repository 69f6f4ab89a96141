"""The graph of a .ftbnn file: values, and the operators of docs/format.md that write them.

Each operator describes its own fields, once: writing, reading and the table of docs/format.md come from that.
Numbers of an epilogue are float64 until the file is written, so that folding rounds once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ftbnn.errors import UserError

Numbers = NDArray[np.float64]
ActName = Literal["none", "relu", "prelu", "fprelu", "clamp", "hardswish", "hardsigmoid", "sigmoid", "silu", "tanh"]
ACTS: tuple[ActName, ...] = get_args(ActName)  # by their numbers in the file
ACTS_OF_VERSION_1 = ACTS[:4]
STRAIGHT: tuple[ActName, ...] = ("relu", "prelu", "fprelu")  # of two pieces

# What stands in the file: six u32, one u32, one u8, or a blob: of real weights, of rounded ones, of a number per
# channel, of bits, of whole numbers.
FieldKind = Literal["window", "u32", "u8", "weights", "rounded", "numbers", "bits", "integers"]


class ExportError(UserError):
    """A part of a network that cannot be exported, by its layer path, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot export {path or 'the network'}: {reason}")


class NotInFormat(ExportError):
    """What a .ftbnn file has no words for."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, f"{reason} (docs/export.md says what a .ftbnn file holds; ONNX holds more)")


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
    """y = act(pieces(scale[c] * acc + shift[c]) + shortcut) + after[c], for what is not None.

    pieces(x) = first_right[c] * x where x > 0, else first_left[c] * x: a non-linearity before the shortcut.
    """

    scale: Numbers | None = None
    shift: Numbers | None = None
    shortcut: Value | None = None
    act: ActName = "none"
    left: Numbers | None = None
    right: Numbers | None = None
    low: float = 0.0  # of a clamp
    high: float = 0.0
    after: Numbers | None = None
    first_left: Numbers | None = None  # both or none
    first_right: Numbers | None = None

    @property
    def version(self) -> int:
        """The first version of the file that has all of it."""
        if self.has_pieces:
            return 5
        return 1 if self.after is None and self.act in ACTS_OF_VERSION_1 else 2

    @property
    def has_pieces(self) -> bool:
        return self.first_left is not None

    def slopes(self, channels: int) -> tuple[Numbers, Numbers]:
        """Left and right of a non-linearity of two straight pieces."""
        left = np.zeros(channels) if self.left is None else self.left
        return left, np.ones(channels) if self.right is None else self.right

    @property
    def affine(self) -> tuple[Numbers, Numbers] | None:
        """What it multiplies each channel with and adds then, if it does nothing else."""
        does_more = self.act != "none" or any(it is not None for it in (self.shortcut, self.after, self.first_left))
        given = next((it for it in (self.scale, self.shift) if it is not None), None)
        if does_more or given is None:
            return None
        scale = np.ones_like(given) if self.scale is None else self.scale
        return scale, np.zeros_like(given) if self.shift is None else self.shift

    @property
    def only_shift(self) -> Numbers | None:
        """What it adds to each channel, if it does nothing else."""
        others = (self.scale, self.shortcut, self.after, self.first_left)
        does_more = self.act != "none" or any(it is not None for it in others)
        return None if does_more else self.shift

    @property
    def only_adds(self) -> bool:
        """Whether it adds a shortcut and does nothing else."""
        others = (self.scale, self.shift, self.after, self.first_left)
        return self.shortcut is not None and self.act == "none" and all(it is None for it in others)


EPILOGUE_FLAGS = ("scale", "shift", "shortcut", "after", "first_left")  # by their bits in the file


@dataclass(frozen=True)
class Field:
    """A field of an operator: its name here, what stands in the file, and what docs/format.md says of it.

    A u8 may announce a field that can be absent: its bit 1 says that it is there.
    """

    name: str
    kind: FieldKind
    text: str
    announces: str = ""


WINDOW = Field("window", "window", "window")
GROUPS = Field("groups", "u32", "u32 groups")


@dataclass
class Operator:
    """Reads values, writes one. `path` is the layer it came from."""

    kind: ClassVar[int]
    title: ClassVar[str]  # its name in docs/format.md
    note: ClassVar[str] = ""  # what that says of the output
    fields: ClassVar[tuple[Field, ...]] = ()

    path: str
    inputs: tuple[Value, ...]
    output: Value

    def reads(self) -> Iterator[Value]:
        yield from self.inputs

    @property
    def version(self) -> int:
        """The first version of the file that has all of it."""
        return 1


@dataclass
class Fused(Operator):
    """An operator that ends in an epilogue. `folded` are the layers that became part of it."""

    epilogue: Epilogue = field(default_factory=Epilogue)
    folded: tuple[str, ...] = ()

    def reads(self) -> Iterator[Value]:
        yield from self.inputs
        if self.epilogue.shortcut is not None:
            yield self.epilogue.shortcut

    @property
    def version(self) -> int:
        return self.epilogue.version


@dataclass
class Conv(Fused):
    """Real weights. One (out, in of group, kh, kw) array, or two where the last group is larger than the others."""

    kind, title, note = 1, "conv", "zero padding"
    fields = (WINDOW, GROUPS, Field("weights", "weights", "blob f32 [out][in of group][kh][kw]"))
    window: Window = field(kw_only=True)
    groups: int = field(kw_only=True)
    weights: tuple[NDArray[Any], ...] = field(kw_only=True)


@dataclass
class BConv(Fused):
    """Binary weights on the codes of its input. `positive` is where a weight is +1, in arrays as Conv's weights."""

    kind, title = 2, "bconv"
    note = "codes of the input: bit 1 where x > 0, or x > threshold[c]; a padded tap contributes 0"
    fields = (
        WINDOW,
        GROUPS,
        Field("zero_one", "u8", "u8 code (0: {-1, +1}, 1: {0, 1}; 2 more with a threshold)", announces="threshold"),
        Field("positive", "bits", "blob bits"),
        Field("threshold", "numbers", "blob f32 [in] threshold if announced"),
    )
    window: Window = field(kw_only=True)
    groups: int = field(kw_only=True)
    zero_one: bool = field(kw_only=True)
    positive: tuple[NDArray[np.bool_], ...] = field(kw_only=True)
    threshold: Numbers | None = field(kw_only=True, default=None)

    @property
    def version(self) -> int:
        return max(super().version, 1 if self.threshold is None else 2)


@dataclass
class Linear(Fused):
    """A matrix (out, in) times a vector."""

    kind, title, note = 3, "linear", "input has height and width 1"
    fields = (Field("weight", "weights", "blob f32 [out][in]"),)
    weight: NDArray[Any] = field(kw_only=True)


@dataclass
class MaxPool(Operator):
    kind, title, note = 4, "max-pool", "padding never wins"
    fields = (WINDOW,)
    window: Window = field(kw_only=True)


@dataclass
class AvgPool(Operator):
    """`whole` divides by the size of the window, else by that of its part inside the image."""

    kind, title = 5, "avg-pool"
    fields = (
        WINDOW,
        Field("whole", "u8", "u8 divide by the whole window (1) or by its part inside the image (0)"),
    )
    window: Window = field(kw_only=True)
    whole: bool = field(kw_only=True)


@dataclass
class AverageTo(Operator):
    kind, title = 6, "average to"
    note = "PyTorch's adaptive average: output row i covers rows floor(i h / oh) to ceil((i + 1) h / oh)"


@dataclass
class Concat(Operator):
    kind, title, note = 7, "concat", "channels of all inputs, one after the other"


@dataclass
class Channels(Operator):
    """Output channel c is input channel source[c]."""

    kind, title = 8, "channels"
    note = "output channel c is input channel map[c]: repeats, slices, shuffles"
    fields = (Field("source", "integers", "blob i32 [out]"),)
    source: NDArray[np.int32] = field(kw_only=True)


@dataclass
class Pointwise(Fused):
    kind, title = 9, "pointwise"
    is_for_signs: bool = field(kw_only=True, default=False)  # what a sign adds before it looks


@dataclass
class Flatten(Operator):
    kind, title, note = 10, "flatten", "channel-major: channel, row, column"


@dataclass
class RoundedConv(Fused):
    """Weights that are whole multiples, in arrays as Conv's of i8 or i16, of the unit of their output channel."""

    kind, title = 11, "rounded conv"
    note = "(3) zero padding; a weight is its integer times unit[out], and none is -2^(bits - 1)"
    fields = (
        WINDOW,
        GROUPS,
        Field("bits", "u8", "u8 bits, 8 or 16"),
        Field("integers", "rounded", "blob i8 or i16 [out][in of group][kh][kw]"),
        Field("unit", "numbers", "blob f32 [out] unit"),
    )
    window: Window = field(kw_only=True)
    groups: int = field(kw_only=True)
    bits: int = field(kw_only=True)
    integers: tuple[NDArray[Any], ...] = field(kw_only=True)
    unit: Numbers = field(kw_only=True)

    @property
    def version(self) -> int:
        return max(super().version, 3)

    @property
    def weights(self) -> tuple[NDArray[np.float32], ...]:
        """As numbers, rounded as training rounds them."""
        parts, first = [], 0
        for part in self.integers:
            unit = self.unit[first : first + len(part)].astype(np.float32)
            parts.append(part.astype(np.float32) * unit[:, None, None, None])
            first += len(part)
        return tuple(parts)


@dataclass
class Steps(Operator):
    """How many thresholds a number is greater than. `thresholds` are (1 or channels, count), rising in each row."""

    kind, title = 12, "steps"
    note = "(4) how many of the thresholds of its channel (of all, where there is one row) x is greater than"
    fields = (
        Field("count", "u32", "u32 steps"),
        Field("rows", "u32", "u32 rows"),
        Field("thresholds", "numbers", "blob f32 [rows][steps] thresholds, rising"),
    )
    thresholds: NDArray[Any] = field(kw_only=True)

    @property
    def rows(self) -> int:
        return len(self.thresholds)

    @property
    def count(self) -> int:
        return int(self.thresholds.shape[1])

    @property
    def version(self) -> int:
        return 4


@dataclass
class Combine(Operator):
    """Of a value with another one, which may have one channel, one position, or both, for all of the first's."""

    kind, title = 13, "combine"
    note = "(4) product or sum of two inputs; the second has the first's channels or 1, and its size or 1 x 1"
    fields = (Field("is_sum", "u8", "u8 how (0: product, 1: sum)"),)
    is_sum: bool = field(kw_only=True)

    @property
    def version(self) -> int:
        return 4


@dataclass
class Map(Operator):
    """A constant factor for each position."""

    kind, title, note = 14, "map", "(4) every channel of a position times the factor of the position"
    fields = (Field("factors", "weights", "blob f32 [height][width]"),)
    factors: NDArray[Any] = field(kw_only=True)

    @property
    def version(self) -> int:
        return 4


OPERATORS: tuple[type[Operator], ...] = (
    Conv,
    BConv,
    Linear,
    MaxPool,
    AvgPool,
    AverageTo,
    Concat,
    Channels,
    Pointwise,
    Flatten,
    RoundedConv,
    Steps,
    Combine,
    Map,
)


def documented(operator: type[Operator]) -> str:
    """The operator's row in the table of docs/format.md."""
    texts = [f.text for f in operator.fields] + (["epilogue"] if issubclass(operator, Fused) else [])
    cells = [str(operator.kind), operator.title, ", ".join(texts) or "-", operator.note]
    return f"| {' | '.join(cells)} |".replace("  ", " ")


@dataclass(frozen=True)
class Graph:
    """Operators, each behind those whose values it reads."""

    input: Value
    output: Value
    operators: tuple[Operator, ...]
