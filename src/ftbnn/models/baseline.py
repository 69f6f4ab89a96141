"""The FTBNN baseline: ResNet's shape with one binary convolution per block (paper, section 3.1, figure 1).

ReLU after the last block of every stage, FPReLU after all others. The ablation variants of the paper's table 3
change only these two non-linearities.
"""

from torch import Tensor, nn

from ftbnn.errors import UserError, unknown
from ftbnn.nn import Act, BasicBlock, Method, PlainStem, ProjectionReduction, StemName, method_named

BLOCKS = {18: (4, 4, 4, 4), 34: (6, 8, 12, 6)}  # per stage; widths double from stage to stage


class FTBNN(nn.Module):
    """Real stem, four stages of binary blocks at widths w, 2w, 4w, 8w, global average pool, real classifier.

    The method says how convolutions are binary and which non-linearities stand between; `act` and `stage_end_act`
    choose others. `stem_bits`, 8 or 16, rounds the stem's weights.
    """

    def __init__(
        self,
        *,
        layers: int = 18,
        width: int = 64,
        classes: int = 1000,
        in_channels: int = 3,
        stem: StemName = "imagenet",
        stem_bits: int | None = None,
        method: str | Method = "ftbnn",
        act: Act | None = None,
        stage_end_act: Act | None = None,
    ) -> None:
        super().__init__()
        if layers not in BLOCKS:
            raise unknown("depth", str(layers), map(str, BLOCKS))
        if min(width, classes, in_channels) < 1:
            raise UserError(f"width={width}, classes={classes} and in_channels={in_channels} must be 1 or more")
        way = method_named(method)
        act, stage_end_act = act or way.act, stage_end_act or way.end_act
        self.stem = PlainStem(in_channels, width, stem=stem, act=way.stem_act, bits=stem_bits)
        channels, previous = width, way.stem_act
        for number, blocks in enumerate(BLOCKS[layers], start=1):
            stage = nn.Sequential()
            for index in range(blocks):
                this = stage_end_act if index == blocks - 1 else act
                follows_relu = previous == "relu"
                block: nn.Module
                if index == 0 and number > 1:
                    block = ProjectionReduction(channels, act=this, follows_relu=follows_relu, method=way)
                    channels *= 2
                else:
                    block = BasicBlock(channels, act=this, follows_relu=follows_relu, method=way)
                stage.append(block)
                previous = this
            self.add_module(f"stage{number}", stage)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in ("stage1", "stage2", "stage3", "stage4"):
            x = self.get_submodule(stage)(x)
        logits: Tensor = self.fc(self.pool(x).flatten(1))
        return logits
