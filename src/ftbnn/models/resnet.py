"""Real-valued ResNet-18 and -34: the paper's upper line and the teacher of multi-step training.

Parameter names are torchvision's (`conv1`, `layer1.0.bn2`, `layer2.0.downsample.0`, `fc`), so its weights load.
"""

from torch import Tensor, nn

from ftbnn.errors import UserError, unknown
from ftbnn.nn import StemName, first_conv

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}  # per stage, two convolutions each


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with BatchNorm, plus the input (projected where the shape changes), then ReLU."""

    def __init__(self, in_channels: int, out_channels: int, *, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.downsample: nn.Module | None = None
        if stride != 1 or in_channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        result: Tensor = self.relu(out + shortcut)
        return result


class ResNet(nn.Module):
    """Stem, four layers of residual blocks at widths w, 2w, 4w, 8w, global average pool, classifier."""

    def __init__(
        self,
        *,
        layers: int = 18,
        width: int = 64,
        classes: int = 1000,
        in_channels: int = 3,
        stem: StemName = "imagenet",
        stem_bits: int | None = None,
    ) -> None:
        super().__init__()
        if layers not in BLOCKS:
            raise unknown("depth", str(layers), map(str, BLOCKS))
        if stem not in ("imagenet", "small"):
            raise unknown("stem", stem, ("imagenet", "small"))
        if min(width, classes, in_channels) < 1:
            raise UserError(f"width={width}, classes={classes} and in_channels={in_channels} must be 1 or more")
        wide = stem == "imagenet"
        kernel, stride = (7, 2) if wide else (3, 1)
        self.conv1 = first_conv(in_channels, width, kernel, stride=stride, bits=stem_bits)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if wide else nn.Identity()
        channels = width
        for number, blocks in enumerate(BLOCKS[layers], start=1):
            out_channels = width * 2 ** (number - 1)
            layer = nn.Sequential(ResidualBlock(channels, out_channels, stride=1 if number == 1 else 2))
            for _ in range(blocks - 1):
                layer.append(ResidualBlock(out_channels, out_channels))
            self.add_module(f"layer{number}", layer)
            channels = out_channels
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for layer in ("layer1", "layer2", "layer3", "layer4"):
            x = self.get_submodule(layer)(x)
        logits: Tensor = self.fc(self.avgpool(x).flatten(1))
        return logits
