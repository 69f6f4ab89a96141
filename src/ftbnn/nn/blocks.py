"""The paper's blocks: a binary convolution with its BatchNorm, a real-valued shortcut and a non-linearity.

The paper's order is act(norm(conv(x)) + shortcut); a method may have another one (nn/method.py).
"""

from torch import Tensor, nn

from ftbnn.nn.layer import is_watched
from ftbnn.nn.method import Act, Method, Shape, activation
from ftbnn.nn.methods import method_named
from ftbnn.nn.native import Block, average, bend, normalise, repeat

# A Hardtanh behind a shortcut cuts what all blocks before it have added up. At BatchNorm's usual first gain of 1 a
# fresh ResNet-20 cuts 33 to 45 % in every block: what shortcuts carry of the stem's gradient is a thousandth of it, the
# rest came through a chain of estimated ones, and little is learned (docs/methods.md). So such blocks start small;
# ReCU's own code starts at 1e-8.
BOUNDED_GAIN = 0.1


class Ordered(nn.Module):
    """The parts of a block, and its method's order of them."""

    def __init__(self, shape: Shape, *, act: Act, method: str | Method, has_shortcut: bool = True) -> None:
        super().__init__()
        way = method_named(method)
        self.order = way.order
        self.conv = way.convolution(shape)
        before = self.order.find("B") < self.order.find("C")
        self.norm = nn.BatchNorm2d(shape.in_channels if before else shape.out_channels) if "B" in self.order else None
        self.act = activation(act, shape.out_channels)
        if has_shortcut and isinstance(self.act, nn.Hardtanh) and self.norm is not None:
            nn.init.constant_(self.norm.weight, BOUNDED_GAIN)

    def run(self, x: Tensor, *, shortcut: Tensor | None) -> Tensor:
        if self.norm is not None and self.order == "CB+A":
            if (block := Block.of(x, self.conv, self.norm, self.act, shortcut)) is not None:
                return block.run()
            if (block := Block.of(x, self.conv, self.norm, None, shortcut)) is not None:
                out: Tensor = self.act(block.run())
                return out
            return normalise(self.conv(x), self.norm, self.act, shortcut=shortcut)
        for step in self.order:
            if step == "+":
                x = x if shortcut is None else x + shortcut
            elif step == "B":
                assert self.norm is not None
                x = normalise(x, self.norm, None)
            else:
                x = self.conv(x) if step == "C" else bend(x, self.act)
        return x


class BasicBlock(Ordered):
    """Sign -> BConv -> BatchNorm, plus the real-valued input, then the non-linearity (paper, figure 1b)."""

    def __init__(
        self,
        channels: int,
        *,
        act: Act,
        follows_relu: bool,
        groups: int = 1,
        method: str | Method = "ftbnn",
    ) -> None:
        shape = Shape(channels, channels, groups=groups, follows_relu=follows_relu)
        super().__init__(shape, act=act, method=method)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x, shortcut=x)


class ProjectionReduction(Ordered):
    """The baseline's reduction c -> 2c: a stride 2 BConv beside average pool -> real 1x1 conv -> BatchNorm."""

    def __init__(self, in_channels: int, *, act: Act, follows_relu: bool, method: str | Method = "ftbnn") -> None:
        out_channels = 2 * in_channels
        super().__init__(Shape(in_channels, out_channels, stride=2, follows_relu=follows_relu), act=act, method=method)
        # ceil_mode gives an odd map as many columns as the padded 3x3 convolution does.
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, 2, ceil_mode=True),
            nn.Conv2d(in_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x, shortcut=self._project(x))

    def _project(self, x: Tensor) -> Tensor:
        is_ours = type(self.shortcut) is nn.Sequential and len(self.shortcut) == 3
        if not is_ours or is_watched(self.shortcut):
            out: Tensor = self.shortcut(x)
            return out
        pool, conv, norm = self.shortcut
        return normalise(conv(average(x, pool)), norm, None)


class DuplicateReduction(Ordered):
    """The derived models' reduction c -> 2c: the input beside itself, then a stride 2 BConv and an average pool.

    No real-valued convolution. The BConv has max(groups, 2) groups (paper, appendix A, figure e).
    """

    def __init__(
        self, in_channels: int, *, groups: int, act: Act, follows_relu: bool, method: str | Method = "ftbnn"
    ) -> None:
        channels = 2 * in_channels
        shape = Shape(channels, channels, stride=2, groups=max(groups, 2), follows_relu=follows_relu)
        super().__init__(shape, act=act, method=method)
        self.shortcut = nn.AvgPool2d(3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        twice = repeat(x, 2, 0)
        return self.run(twice, shortcut=average(twice, self.shortcut))


class Bridge(Ordered):
    """Widens the stem's channels to any number with one BConv and no shortcut (paper, appendix A, figure c).

    The input is repeated m = ceil(out / in) times, cut to `out_channels`, and convolved in m groups.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, act: Act = "fprelu", method: str | Method = "ftbnn"
    ) -> None:
        groups = -(-out_channels // in_channels)
        shape = Shape(out_channels, out_channels, groups=groups)
        super().__init__(shape, act=act, method=method, has_shortcut=False)
        self.times, self.rest = divmod(out_channels, in_channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(repeat(x, self.times, self.rest), shortcut=None)
