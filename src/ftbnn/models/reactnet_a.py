"""ReActNet-A (Liu et al. 2020): MobileNet's shape in binary convolutions alone, with learned thresholds.

The authors' code has two 1x1 convolutions and two BatchNorms where channels double; here they are one.
"""

from collections.abc import Sequence

from ftbnn.models.mobile import BLOCKS, Mobile, MobileBlock
from ftbnn.nn import Method, StemName, method_named


class ReActNetA(Mobile):
    """Widths 2w to 32w, w = 32 in the paper; the method's layers in each block."""

    def __init__(
        self,
        *,
        width: int = 32,
        classes: int = 1000,
        in_channels: int = 3,
        stem: StemName = "imagenet",
        stem_bits: int | None = None,
        method: str | Method = "reactnet",
        blocks: Sequence[int] = BLOCKS,
    ) -> None:
        way = method_named(method)
        super().__init__(
            lambda place: MobileBlock(place, method=way),
            width=width,
            classes=classes,
            in_channels=in_channels,
            stem=stem,
            stem_bits=stem_bits,
            stem_act=way.stem_act,
            blocks=blocks,
        )
