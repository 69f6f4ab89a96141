"""MobileNet's shape, which ReActNet-A, Binary MobileNet and BNext share: two convolutions a block, 3x3 then 1x1."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn import Act, Method, PurifiedStem, Shape, StemName, method_named
from ftbnn.nn.blocks import Ordered
from ftbnn.nn.native import average, repeat

BLOCKS = (1, 2, 2, 6, 2)  # at 2, 4, 8, 16 and 32 times the stem's channels


@dataclass(frozen=True)
class Place:
    """Where a block stands. Every width's first block doubles the channels; all but the first width's halve the map."""

    number: int  # among all blocks
    channels: int
    is_wider: bool
    stride: int
    is_last: bool  # of its width

    @property
    def out_channels(self) -> int:
        return 2 * self.channels if self.is_wider else self.channels


class Mobile(nn.Module):
    """Stem 3x3, blocks, global average pool, real classifier. `head_act` stands before the pool."""

    def __init__(
        self,
        make: Callable[[Place], nn.Module],
        *,
        width: int = 32,
        classes: int = 1000,
        in_channels: int = 3,
        stem: StemName = "imagenet",
        stem_bits: int | None = None,
        stem_act: Act = "none",
        blocks: Sequence[int] = BLOCKS,
        head_act: Callable[[int], nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if min(width, classes, in_channels, *blocks) < 1:
            given = f"width={width}, classes={classes}, in_channels={in_channels} and blocks={tuple(blocks)}"
            raise UserError(f"{given} must be 1 or more")
        self.stem = PurifiedStem(in_channels, width, stem=stem, act=stem_act, bits=stem_bits)
        channels, number = width, 0
        for stage, count in enumerate(blocks):
            for index in range(count):
                is_first = index == 0
                stride = 2 if is_first and stage > 0 else 1
                place = Place(number, channels, is_first, stride, index == count - 1)
                self.add_module(f"block{number + 1}", make(place))
                channels, number = place.out_channels, number + 1
        self.blocks = number
        self.head_act = nn.Identity() if head_act is None else head_act(channels)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for number in range(self.blocks):
            x = self.get_submodule(f"block{number + 1}")(x)
        logits: Tensor = self.fc(self.pool(self.head_act(x)).flatten(1))
        return logits


def half(stride: int) -> nn.AvgPool2d | None:
    """What brings a shortcut to the size of a strided convolution's map, an odd one's too."""
    return nn.AvgPool2d(2, 2, ceil_mode=True) if stride == 2 else None


class Joined(Ordered):
    """One binary convolution of a block, with the shortcut that it is given."""

    def forward(self, x: Tensor, shortcut: Tensor) -> Tensor:
        return self.run(x, shortcut=shortcut)


class MobileBlock(nn.Module):
    """3x3, then 1x1, each with a shortcut around it; no real-valued convolution.

    Where the block is strided the shortcut is an average of 2x2 pixels, and where it is wider the input beside itself:
    one 1x1 convolution to 2c channels is two to c that read the same signs, one behind the other.
    """

    def __init__(self, place: Place, *, method: str | Method, groups: tuple[int, int] = (1, 1)) -> None:
        super().__init__()
        way = method_named(method)
        before = (way.stem_act if place.number == 0 else way.end_act if place.is_wider else way.act) == "relu"
        spatial = Shape(place.channels, place.channels, stride=place.stride, groups=groups[0], follows_relu=before)
        point = Shape(place.channels, place.out_channels, 1, groups=groups[1], follows_relu=way.act == "relu")
        self.pool = half(place.stride)
        self.spatial = Joined(spatial, act=way.act, method=way)
        self.point = Joined(point, act=way.end_act if place.is_last else way.act, method=way)
        self.is_wider = place.is_wider

    def forward(self, x: Tensor) -> Tensor:
        x = self.spatial(x, x if self.pool is None else average(x, self.pool))
        out: Tensor = self.point(x, repeat(x, 2, 0) if self.is_wider else x)
        return out
