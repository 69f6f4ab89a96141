"""The paper's blocks: a binary convolution with its BatchNorm, a real-valued shortcut and a non-linearity."""

from typing import Literal

from torch import Tensor, nn

from ftbnn.errors import unknown
from ftbnn.nn import native
from ftbnn.nn.bconv import Backend, BConv
from ftbnn.nn.fprelu import FPReLU
from ftbnn.nn.native_call import is_watched
from ftbnn.nn.native_norm import normalise
from ftbnn.nn.native_pool import average
from ftbnn.nn.native_repeat import repeat
from ftbnn.nn.sign import Sign

ActName = Literal["fprelu", "prelu", "relu", "none"]


def activation(name: ActName, channels: int) -> nn.Module:
    """The non-linear module that ends a block."""
    if name == "fprelu":
        return FPReLU(channels)
    if name == "prelu":
        return nn.PReLU(channels)
    if name == "relu":
        return nn.ReLU()
    if name == "none":
        return nn.Identity()
    raise unknown("non-linearity", name, ("fprelu", "prelu", "relu", "none"))


def _block(x: Tensor, sign: Sign, conv: BConv, norm: nn.Module, act: nn.Module, *, shortcut: Tensor | None) -> Tensor:
    """What every block computes, by the backend of its convolution."""
    layers = native.Layers(sign, conv, norm, act)
    if native.fits(x, layers, shortcut):
        return native.run(x, layers, shortcut)
    return normalise(conv(sign(x)), norm, act, _backend(conv), shortcut=shortcut)


def _backend(conv: nn.Module) -> Backend:
    return conv.backend if isinstance(conv, BConv) else "torch"  # somebody may have put another layer in its place


class BasicBlock(nn.Module):
    """Sign -> BConv -> BatchNorm, plus the real-valued input, then the non-linearity (paper, figure 1b)."""

    def __init__(
        self,
        channels: int,
        *,
        act: ActName,
        follows_relu: bool,
        groups: int = 1,
        conv: type[BConv] = BConv,
    ) -> None:
        super().__init__()
        self.sign = Sign(zero_one=follows_relu)
        self.conv = conv(channels, channels, groups=groups)
        self.norm = nn.BatchNorm2d(channels)
        self.act = activation(act, channels)

    def forward(self, x: Tensor) -> Tensor:
        return _block(x, self.sign, self.conv, self.norm, self.act, shortcut=x)


class ProjectionReduction(nn.Module):
    """The baseline's reduction c -> 2c: a stride 2 BConv beside average pool -> real 1x1 conv -> BatchNorm."""

    def __init__(self, in_channels: int, *, act: ActName, follows_relu: bool, conv: type[BConv] = BConv) -> None:
        super().__init__()
        out_channels = 2 * in_channels
        self.sign = Sign(zero_one=follows_relu)
        self.conv = conv(in_channels, out_channels, stride=2)
        self.norm = nn.BatchNorm2d(out_channels)
        # ceil_mode gives an odd map as many columns as the padded 3x3 convolution does.
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, 2, ceil_mode=True),
            nn.Conv2d(in_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.act = activation(act, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return _block(x, self.sign, self.conv, self.norm, self.act, shortcut=self._project(x))

    def _project(self, x: Tensor) -> Tensor:
        backend = _backend(self.conv)
        is_ours = type(self.shortcut) is nn.Sequential and len(self.shortcut) == 3
        if backend == "torch" or not is_ours or is_watched(self.shortcut):
            out: Tensor = self.shortcut(x)
            return out
        pool, conv, norm = self.shortcut
        return normalise(conv(average(x, pool, backend)), norm, None, backend)


class DuplicateReduction(nn.Module):
    """The derived models' reduction c -> 2c: the input beside itself, then a stride 2 BConv and an average pool.

    No real-valued convolution. The BConv has max(groups, 2) groups (paper, appendix A, figure e).
    """

    def __init__(self, in_channels: int, *, groups: int, act: ActName, follows_relu: bool) -> None:
        super().__init__()
        out_channels = 2 * in_channels
        self.sign = Sign(zero_one=follows_relu)
        self.conv = BConv(out_channels, out_channels, stride=2, groups=max(groups, 2))
        self.norm = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.AvgPool2d(3, 2, 1)
        self.act = activation(act, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        backend = _backend(self.conv)
        twice = repeat(x, 2, 0, backend)
        shortcut = average(twice, self.shortcut, backend)
        return _block(twice, self.sign, self.conv, self.norm, self.act, shortcut=shortcut)


class Bridge(nn.Module):
    """Widens the stem's channels to any number with one BConv and no shortcut (paper, appendix A, figure c).

    The input is repeated m = ceil(out / in) times, cut to `out_channels`, and convolved in m groups.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.times, self.rest = divmod(out_channels, in_channels)
        self.sign = Sign()
        self.conv = BConv(out_channels, out_channels, groups=-(-out_channels // in_channels))
        self.norm = nn.BatchNorm2d(out_channels)
        self.act = FPReLU(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        wide = repeat(x, self.times, self.rest, _backend(self.conv))
        return _block(wide, self.sign, self.conv, self.norm, self.act, shortcut=None)
