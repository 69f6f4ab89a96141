"""Binary MobileNet (Phan et al. 2020): MobileNet's shape in binary convolutions of groups, as many as a list says.

The paper finds the list by evolution and does not print it: the one here is ours, between MobileNet's depthwise 3x3
convolutions, whose sums of nine signs say too little, and dense ones. Signs and their gradients are Bi-Real Net's.
"""

from collections.abc import Sequence

from ftbnn.errors import UserError
from ftbnn.models.mobile import BLOCKS, Mobile, MobileBlock
from ftbnn.nn import Method, StemName, method_named

# Of the 3x3 and of the 1x1 convolution of each block.
GROUPS = (
    (1, 1),
    *((2, 1), (2, 1)),
    *((4, 1), (4, 1)),
    *((8, 1), (8, 2), (8, 2), (8, 2), (8, 2), (8, 2)),
    *((16, 2), (16, 4)),
)


class BinaryMobileNet(Mobile):
    """`groups` has a pair for each block; `blocks`, how many there are of each width."""

    def __init__(
        self,
        *,
        groups: Sequence[tuple[int, int]] = GROUPS,
        width: int = 32,
        classes: int = 1000,
        in_channels: int = 3,
        stem: StemName = "imagenet",
        stem_bits: int | None = None,
        method: str | Method = "bireal",
        blocks: Sequence[int] = BLOCKS,
    ) -> None:
        if len(groups) != sum(blocks):
            raise UserError(f"{sum(blocks)} blocks need as many pairs of groups, not {len(groups)}")
        way = method_named(method)
        super().__init__(
            lambda place: MobileBlock(place, method=way, groups=groups[place.number]),
            width=width,
            classes=classes,
            in_channels=in_channels,
            stem=stem,
            stem_bits=stem_bits,
            stem_act=way.stem_act,
            blocks=blocks,
        )
