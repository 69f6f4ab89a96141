"""The paper's blocks: a binary convolution with its BatchNorm, a real-valued shortcut and a non-linearity."""

from torch import Tensor, nn

from ftbnn.nn.bconv import BConv
from ftbnn.nn.layer import is_watched
from ftbnn.nn.method import Act, Method, activation
from ftbnn.nn.methods import method_named
from ftbnn.nn.native import Block, average, normalise, repeat


def _block(x: Tensor, conv: nn.Module, norm: nn.Module, act: nn.Module, *, shortcut: Tensor | None) -> Tensor:
    """What every block computes: act(norm(conv(x)) + shortcut)."""
    if (block := Block.of(x, conv, norm, act, shortcut)) is not None:
        return block.run()
    return normalise(conv(x), norm, act, shortcut=shortcut)


class BasicBlock(nn.Module):
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
        super().__init__()
        way = method_named(method)
        sign = way.input(channels, follows_relu)
        self.conv = BConv(channels, channels, groups=groups, input=sign, signs=way.signs())
        self.norm = nn.BatchNorm2d(channels)
        self.act = activation(act, channels)

    def forward(self, x: Tensor) -> Tensor:
        return _block(x, self.conv, self.norm, self.act, shortcut=x)


class ProjectionReduction(nn.Module):
    """The baseline's reduction c -> 2c: a stride 2 BConv beside average pool -> real 1x1 conv -> BatchNorm."""

    def __init__(self, in_channels: int, *, act: Act, follows_relu: bool, method: str | Method = "ftbnn") -> None:
        super().__init__()
        way, out_channels = method_named(method), 2 * in_channels
        sign = way.input(in_channels, follows_relu)
        self.conv = BConv(in_channels, out_channels, stride=2, input=sign, signs=way.signs())
        self.norm = nn.BatchNorm2d(out_channels)
        # ceil_mode gives an odd map as many columns as the padded 3x3 convolution does.
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, 2, ceil_mode=True),
            nn.Conv2d(in_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.act = activation(act, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return _block(x, self.conv, self.norm, self.act, shortcut=self._project(x))

    def _project(self, x: Tensor) -> Tensor:
        is_ours = type(self.shortcut) is nn.Sequential and len(self.shortcut) == 3
        if not is_ours or is_watched(self.shortcut):
            out: Tensor = self.shortcut(x)
            return out
        pool, conv, norm = self.shortcut
        return normalise(conv(average(x, pool)), norm, None)


class DuplicateReduction(nn.Module):
    """The derived models' reduction c -> 2c: the input beside itself, then a stride 2 BConv and an average pool.

    No real-valued convolution. The BConv has max(groups, 2) groups (paper, appendix A, figure e).
    """

    def __init__(
        self, in_channels: int, *, groups: int, act: Act, follows_relu: bool, method: str | Method = "ftbnn"
    ) -> None:
        super().__init__()
        way, channels = method_named(method), 2 * in_channels
        sign = way.input(channels, follows_relu)
        self.conv = BConv(channels, channels, stride=2, groups=max(groups, 2), input=sign, signs=way.signs())
        self.norm = nn.BatchNorm2d(channels)
        self.shortcut = nn.AvgPool2d(3, 2, 1)
        self.act = activation(act, channels)

    def forward(self, x: Tensor) -> Tensor:
        twice = repeat(x, 2, 0)
        return _block(twice, self.conv, self.norm, self.act, shortcut=average(twice, self.shortcut))


class Bridge(nn.Module):
    """Widens the stem's channels to any number with one BConv and no shortcut (paper, appendix A, figure c).

    The input is repeated m = ceil(out / in) times, cut to `out_channels`, and convolved in m groups.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, act: Act = "fprelu", method: str | Method = "ftbnn"
    ) -> None:
        super().__init__()
        self.times, self.rest = divmod(out_channels, in_channels)
        way, groups = method_named(method), -(-out_channels // in_channels)
        sign = way.input(out_channels, False)
        self.conv = BConv(out_channels, out_channels, groups=groups, input=sign, signs=way.signs())
        self.norm = nn.BatchNorm2d(out_channels)
        self.act = activation(act, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return _block(repeat(x, self.times, self.rest), self.conv, self.norm, self.act, shortcut=None)
