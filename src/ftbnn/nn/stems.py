"""Stems: what turns an image into the first real-valued features. Real arithmetic, as in the paper; with `bits`, 8 or
16, the weights of the convolution are rounded (nn/rounded.py)."""

from typing import Literal

from torch import Tensor, nn

from ftbnn.errors import unknown
from ftbnn.nn import native
from ftbnn.nn.method import Act, activation
from ftbnn.nn.rounded import RoundedConv2d

StemName = Literal["imagenet", "small"]
STEMS: tuple[StemName, ...] = ("imagenet", "small")
LARGEST_SMALL_IMAGE = 64  # up to here the stem keeps the resolution


def stem_for(image_size: int) -> StemName:
    """The stem that a network gets where none is asked for."""
    return "small" if image_size <= LARGEST_SMALL_IMAGE else "imagenet"


def is_small(stem: str) -> bool:
    """Whether the stem keeps the resolution; raises for a name that is no stem's."""
    if stem not in STEMS:
        raise unknown("stem", stem, STEMS)
    return stem == "small"


def first_conv(in_channels: int, out_channels: int, kernel: int, *, stride: int, bits: int | None = None) -> nn.Conv2d:
    """The convolution that reads the image, without a bias and padded by half its kernel."""
    window = (kernel, stride, kernel // 2)
    if bits is None:
        return nn.Conv2d(in_channels, out_channels, *window, bias=False)
    return RoundedConv2d(in_channels, out_channels, *window, bias=False, bits=bits)


class PlainStem(nn.Module):
    """Conv -> BatchNorm (-> max-pool): the baseline's and Bi-Real Net's. The paper has no non-linearity here.

    `imagenet` is 7x7 stride 2 and a 3x3 stride 2 max-pool; `small` (28 to 64 pixels) is 3x3 stride 1 and no pool.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        stem: StemName = "imagenet",
        act: Act = "none",
        bits: int | None = None,
    ) -> None:
        super().__init__()
        small = is_small(stem)
        kernel, stride = (3, 1) if small else (7, 2)
        self.conv = first_conv(in_channels, out_channels, kernel, stride=stride, bits=bits)
        self.norm = nn.BatchNorm2d(out_channels)
        self.act = activation(act, out_channels)
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.act, nn.Identity):
            return native.stem(x, self.conv, self.norm, self.pool)
        out: Tensor = self.pool(native.stem(x, self.conv, self.norm, self.act))
        return out


class PurifiedStem(nn.Module):
    """Conv 3x3 -> BatchNorm -> FPReLU: the derived models' (paper, appendix A, figure b). Stride 2, or 1 if `small`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        stem: StemName = "imagenet",
        act: Act = "fprelu",
        bits: int | None = None,
    ) -> None:
        super().__init__()
        stride = 1 if is_small(stem) else 2
        self.conv = first_conv(in_channels, out_channels, 3, stride=stride, bits=bits)
        self.norm = nn.BatchNorm2d(out_channels)
        self.act = activation(act, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return native.stem(x, self.conv, self.norm, self.act)
