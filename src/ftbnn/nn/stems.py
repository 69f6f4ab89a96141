"""Stems: what turns an image into the first real-valued features. Real arithmetic, as in the paper."""

from typing import Literal

from torch import Tensor, nn

from ftbnn.errors import unknown
from ftbnn.nn.bconv import Backend
from ftbnn.nn.fprelu import FPReLU
from ftbnn.nn.native_norm import normalise

StemName = Literal["imagenet", "small"]
STEMS: tuple[StemName, ...] = ("imagenet", "small")
LARGEST_SMALL_IMAGE = 64  # up to here the stem keeps the resolution


def stem_for(image_size: int) -> StemName:
    """The stem that a network gets where none is asked for."""
    return "small" if image_size <= LARGEST_SMALL_IMAGE else "imagenet"


def _check(stem: str) -> None:
    if stem not in STEMS:
        raise unknown("stem", stem, STEMS)


class PlainStem(nn.Module):
    """Conv -> BatchNorm (-> max-pool): the baseline's and Bi-Real Net's, with no activation.

    `imagenet` is 7x7 stride 2 and a 3x3 stride 2 max-pool; `small` (28 to 64 pixels) is 3x3 stride 1 and no pool.
    """

    backend: Backend = "torch"

    def __init__(self, in_channels: int, out_channels: int, *, stem: StemName = "imagenet") -> None:
        super().__init__()
        _check(stem)
        wide = stem == "imagenet"
        kernel, stride = (7, 2) if wide else (3, 1)
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)
        self.pool = nn.MaxPool2d(3, 2, 1) if wide else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return normalise(self.conv(x), self.norm, self.pool, self.backend)


class PurifiedStem(nn.Module):
    """Conv 3x3 -> BatchNorm -> FPReLU: the derived models' (paper, appendix A, figure b). Stride 2, or 1 if `small`."""

    backend: Backend = "torch"

    def __init__(self, in_channels: int, out_channels: int, *, stem: StemName = "imagenet") -> None:
        super().__init__()
        _check(stem)
        stride = 2 if stem == "imagenet" else 1
        self.conv = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)
        self.act = FPReLU(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return normalise(self.conv(x), self.norm, self.act, self.backend)
