"""Networks of other people's checkpoints: state dicts of the public Bi-Real Net, ReActNet, IR-Net and ReCU code.

Names are mapped to ours, sizes are read from the tensors, and the network computes what theirs does in evaluation, with
one difference: torch.sign(0) is 0 and our codes are two, so a number that is exactly 0 counts as -1 here. Zero padding
is the same (a padded tap is 0 in both). Activations are hardly ever exactly 0; weights that are, are counted and said.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError, first_line
from ftbnn.models import build
from ftbnn.models.baseline import BLOCKS
from ftbnn.nn.bconv import BConv

# Of networks whose blocks have one convolution (Bi-Real Net, ReActNet) and two (IR-Net, ReCU): theirs -> ours, with the
# number of the block as {block}. What maps to "" is not needed.
_ENDS = {r"conv1\.weight": "stem.conv.weight", r"bn1\.(.+)": r"stem.norm.\1", r"(?:fc|linear)\.(.+)": r"fc.\1"}
_ONE = _ENDS | {
    r"layer(\d)\.(\d+)\.binary_conv\.weights?": r"stage\1.{block}.conv.weight",
    r"layer(\d)\.(\d+)\.bn1\.(.+)": r"stage\1.{block}.norm.\3",
    r"layer(\d)\.(\d+)\.move0\.bias": r"stage\1.{block}.conv.input.bias",
    r"layer(\d)\.(\d+)\.move1\.bias": r"stage\1.{block}.act.before",
    r"layer(\d)\.(\d+)\.prelu\.weight": r"stage\1.{block}.act.slope",
    r"layer(\d)\.(\d+)\.move2\.bias": r"stage\1.{block}.act.after",
    r"layer(\d)\.(\d+)\.downsample\.(.+)": r"stage\1.{block}.shortcut.\3",
}
_TWO = _ENDS | {
    r"layer(\d)\.(\d+)\.conv\d\.weight": r"stage\1.{block}.conv.weight",
    r"layer(\d)\.(\d+)\.conv\d\.alpha": r"stage\1.{block}.conv.scale.alpha",
    r"layer(\d)\.(\d+)\.conv\d\.tau": "",
    r"layer(\d)\.(\d+)\.bn\d\.(.+)": r"stage\1.{block}.norm.\3",
    r"layer(\d)\.(\d+)\.downsample\.(\d)\.(.+)": r"stage\1.{block}.shortcut.{part}.\4",
    r"bn[23]\.(.+)": "",  # the head's: folded into the classifier, or never used by its own forward
}


@dataclass(frozen=True)
class Author:
    """Whose checkpoint it is, by a name that only theirs has."""

    method: str
    names: Mapping[str, str]
    convolutions: int  # of a block of theirs
    is_ours: Callable[[Mapping[str, Tensor]], bool]


AUTHORS = (
    Author("reactnet", _ONE, 1, lambda state: "layer1.0.move0.bias" in state),
    Author("bireal", _ONE, 1, lambda state: any(name.startswith("layer1.0.binary_conv") for name in state)),
    Author("recu", _TWO, 2, lambda state: "layer1.0.conv1.alpha" in state),
    Author("irnet", _TWO, 2, lambda state: "layer1.0.conv1.weight" in state and "bn2.running_mean" in state),
)


def from_authors(checkpoint: str | Path | Mapping[str, Any]) -> nn.Module:
    """The network of a checkpoint of Bi-Real Net's, ReActNet's (ResNet), IR-Net's or ReCU's public code, a file or a
    state dict, in evaluation mode: to be exported, evaluated or trained on."""
    state = _state_of(checkpoint)
    author = next((author for author in AUTHORS if author.is_ours(state)), None)
    if author is None:
        raise UserError("this is no checkpoint of Bi-Real Net's, ReActNet's, IR-Net's or ReCU's ResNets")
    network = _network_of(state, author)
    own = network.state_dict()
    given = _mapped(state, author)
    for name in own:
        if name.endswith("num_batches_tracked"):
            given.setdefault(name, own[name])
    if set(given) != set(own):
        name = min(set(given) ^ set(own))
        who = "the checkpoint" if name in given else "this network"
        raise UserError(f"it is of another network than {author.method}'s that is known here: {name} is only in {who}")
    for name, tensor in given.items():
        if tensor.numel() != own[name].numel():
            raise UserError(f"its {name} is {list(tensor.shape)}, {list(own[name].shape)} is expected")
    network.load_state_dict({name: tensor.reshape(own[name].shape) for name, tensor in given.items()})
    _fold_head(network, state)
    binary = [layer.proxies(part) for layer in network.modules() if isinstance(layer, BConv) for part in layer.parts]
    zeros = sum(weight.numel() - int(weight.count_nonzero()) for weight in binary)
    if zeros:
        warnings.warn(f"{zeros} binary weights are exactly 0, which torch.sign keeps; here they are -1", stacklevel=2)
    return network.eval()


def _state_of(checkpoint: str | Path | Mapping[str, Any]) -> dict[str, Tensor]:
    if isinstance(checkpoint, str | Path):
        try:
            checkpoint = torch.load(checkpoint, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever a file that is no checkpoint may raise
            raise UserError(f"{checkpoint} cannot be read: {first_line(error)}") from error
    held = checkpoint.get("state_dict", checkpoint) if isinstance(checkpoint, Mapping) else None
    if not isinstance(held, Mapping) or not held or not all(isinstance(tensor, Tensor) for tensor in held.values()):
        raise UserError("this holds no state dict")
    return {name.removeprefix("module."): tensor for name, tensor in held.items()}


def _network_of(state: Mapping[str, Tensor], author: Author) -> nn.Module:
    """A fresh one of that size."""
    if any(re.fullmatch(r"layer\d\.\d+\.shortcut\.0\..+", name) for name in state):
        raise UserError("its blocks have one shortcut around two convolutions; here each has its own")
    classifier = state.get("fc.weight", state.get("linear.weight"))
    if classifier is None or "conv1.weight" not in state:
        raise UserError("it has no first convolution or no classifier")
    first = state["conv1.weight"]
    found = {int(match[1]) for name in state if (match := re.match(r"layer1\.(\d+)\.", name))}
    blocks = author.convolutions * (max(found) + 1)
    settings: dict[str, Any] = {"width": len(first), "in_channels": first.shape[1], "classes": len(classifier)}
    if "layer4.0.bn1.weight" in state:
        layers = next((depth for depth, counts in BLOCKS.items() if counts[0] == blocks), None)
        if layers is None:
            raise UserError(f"its first stage has {blocks} binary convolutions; 4 and 6 are known (18 and 34 layers)")
        stem = "imagenet" if first.shape[-1] == 7 else "small"
        network = build(f"ftbnn{layers}", method=author.method, stem=stem, **settings)  # type: ignore[arg-type]
    else:
        network = build("resnet20", method=author.method, **settings)
    if _takes_every_second(state, author):
        for block in network.modules():
            shortcut = getattr(block, "shortcut", None)
            if isinstance(shortcut, nn.Sequential):
                shortcut[0] = nn.AvgPool2d(1, 2)
            elif isinstance(shortcut, nn.AvgPool2d):
                block.shortcut = nn.AvgPool2d(1, 2)
    return network


def _takes_every_second(state: Mapping[str, Tensor], author: Author) -> bool:
    """Whether shortcuts that halve a map take every second pixel, not an average: IR-Net's on CIFAR-10, and where a 1x1
    convolution has the stride, no pool stands before it."""
    if any(".downsample." in name for name in state):
        return "layer2.0.downsample.0.weight" in state
    return author.method == "irnet"


def _mapped(state: Mapping[str, Tensor], author: Author) -> dict[str, Tensor]:
    """By our names."""
    is_pooled = "layer2.0.downsample.2.weight" in state
    given = {}
    for name, tensor in state.items():
        pattern = next((pattern for pattern in author.names if re.fullmatch(pattern, name)), None)
        if pattern is None:
            raise UserError(f"it has {name}, which is not known of {author.method}'s networks")
        match = re.fullmatch(pattern, name)
        assert match is not None
        ours = match.expand(author.names[pattern])
        if not ours:
            continue
        if "{block}" in ours:
            second = author.convolutions == 2 and re.search(r"\.(?:conv|bn)2\.", name) is not None
            ours = ours.replace("{block}", str(author.convolutions * int(match[2]) + second))
        if "{part}" in ours:
            ours = ours.replace("{part}", str(int(match[3]) + (0 if is_pooled else 1)))
        given[ours] = tensor
    return given


@torch.no_grad()
def _fold_head(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """A BatchNorm in front of the classifier becomes part of it."""
    if "bn2.running_mean" not in state:
        return
    classifier = network.get_submodule("fc")
    assert isinstance(classifier, nn.Linear)
    norm = nn.BatchNorm1d(classifier.in_features)
    norm.load_state_dict({name.removeprefix("bn2."): t for name, t in state.items() if name.startswith("bn2.")}, False)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    classifier.bias.add_(classifier.weight @ (norm.bias - norm.running_mean * scale))
    classifier.weight.mul_(scale)
