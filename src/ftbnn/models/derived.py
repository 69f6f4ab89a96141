"""The derived FTBNN: binary purification and group execution (paper, sections 3.2 and 3.3, appendix A).

Against the baseline: a 3x3 stem of 32 channels, a binary bridge to any width v, reductions without a real-valued
convolution in front of *every* stage, and grouped binary convolutions throughout.
"""

from torch import Tensor, nn

from ftbnn.errors import UserError, unknown
from ftbnn.nn import BasicBlock, Bridge, DuplicateReduction, Method, PurifiedStem, StemName, method_named

BLOCKS = {18: (4, 4, 4, 4), 34: (6, 8, 12, 6), 44: (8, 10, 14, 10)}  # per stage
STEM_CHANNELS = 32


class DerivedFTBNN(nn.Module):
    """Stem 32, bridge v, four stages at widths 2v, 4v, 8v, 16v, global average pool, real classifier."""

    def __init__(
        self,
        *,
        layers: int,
        groups: int,
        v: int,
        classes: int = 1000,
        in_channels: int = 3,
        stem: StemName = "imagenet",
        stem_bits: int | None = None,
        method: str | Method = "ftbnn",
    ) -> None:
        super().__init__()
        if layers not in BLOCKS:
            raise unknown("depth", str(layers), map(str, BLOCKS))
        if min(v, groups, classes, in_channels) < 1:
            raise UserError(
                f"v={v}, groups={groups}, classes={classes} and in_channels={in_channels} must be 1 or more"
            )
        if groups > 2 * v:
            raise UserError(
                f"groups={groups} is more than the {2 * v} channels of the first stage (2v, v={v}); "
                f"use groups up to {2 * v} or v of at least {-(-groups // 2)}"
            )
        way = method_named(method)
        self.stem = PurifiedStem(in_channels, STEM_CHANNELS, stem=stem, act=way.act, bits=stem_bits)
        self.bridge = Bridge(STEM_CHANNELS, v, act=way.act, method=way)
        channels, previous = v, way.act
        for number, blocks in enumerate(BLOCKS[layers], start=1):
            stage = nn.Sequential()
            for index in range(blocks):
                act = way.end_act if index == blocks - 1 else way.act
                follows_relu = previous == "relu"
                if index == 0:
                    stage.append(
                        DuplicateReduction(channels, groups=groups, act=act, follows_relu=follows_relu, method=way)
                    )
                    channels *= 2
                else:
                    stage.append(BasicBlock(channels, groups=groups, act=act, follows_relu=follows_relu, method=way))
                previous = act
            self.add_module(f"stage{number}", stage)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bridge(self.stem(x))
        for stage in ("stage1", "stage2", "stage3", "stage4"):
            x = self.get_submodule(stage)(x)
        logits: Tensor = self.fc(self.pool(x).flatten(1))
        return logits
