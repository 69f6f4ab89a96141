"""A network of plain convolutions in its binary form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from ftbnn.errors import UserError, unknown
from ftbnn.nn.layer import Layer, check_network
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.methods import method_named
from ftbnn.text import counted

USUAL = ("stem", "fc")  # parts that most networks keep real, and some have not


@dataclass(frozen=True)
class Binarized:
    """What `binarize` did: the convolutions that it replaced, and those that it left with the reason."""

    replaced: tuple[str, ...]
    left: dict[str, str]

    def __str__(self) -> str:
        kept = "".join(f"\n  left {path}: {why}" for path, why in self.left.items())
        return f"binary now: {counted(len(self.replaced), 'convolution')}, {', '.join(self.replaced)}{kept}"


def binarize(network: nn.Module, method: str | Method = "ftbnn", *, keep: str | Sequence[str] = USUAL) -> Binarized:
    """Replaces every nn.Conv2d of `network` by the method's convolution of the same shape, in place, and says what it
    did. Parts whose path begins with a name in `keep` stay as they are, and so does a convolution that reads the image
    (the first one) and what a binary convolution cannot be: other paddings than half the kernel, dilation. Weights are
    taken along where shapes agree; a bias is left out, as the BatchNorm behind it has one.
    """
    check_network(network, "binarize")
    way, keep = method_named(method), (keep,) if isinstance(keep, str) else keep
    parts = [path for path, _ in network.named_modules() if path]
    for name in keep:
        if name not in (*parts, *USUAL):
            raise unknown("part to keep", name, parts)
    if way.has_size:
        raise UserError("this method learns for images of one size: build its network by name, with image_size")
    replaced: list[str] = []
    left: dict[str, str] = {}
    found = [(path, conv) for path, conv in _convolutions(network)]
    if not found:
        raise UserError("there is no convolution (nn.Conv2d) to make binary in this network")
    for number, (path, conv) in enumerate(found):
        why = _obstacle(path, conv, keep, is_first=number == 0)
        if why:
            left[path] = why
            continue
        shape = Shape(
            conv.in_channels, conv.out_channels, conv.kernel_size[0], conv.stride[0], conv.groups, follows_relu=False
        )
        made = way.convolution(shape)
        weight = getattr(made, "weight", None)
        if weight is not None and weight.shape == conv.weight.shape:
            weight.data.copy_(conv.weight.data)
        parent, _, name = path.rpartition(".")
        setattr(network.get_submodule(parent), name, made.to(conv.weight.device))
        replaced.append(path)
    if not replaced:
        reasons = "; ".join(f"{path}: {why}" for path, why in left.items())
        raise UserError(f"no convolution was made binary: {reasons}")
    return Binarized(tuple(replaced), left)


def _convolutions(network: nn.Module) -> Iterator[tuple[str, nn.Conv2d]]:
    for path, module in network.named_modules():
        if type(module) is nn.Conv2d and not isinstance(module, Layer):
            yield path, module


def _obstacle(path: str, conv: nn.Conv2d, keep: Sequence[str], *, is_first: bool) -> str:
    """Why a convolution stays as it is; empty if nothing speaks against it."""
    if not path:
        return "it is the whole network"
    if any(path == name or path.startswith(f"{name}.") for name in keep):
        return "it is to be kept"
    if is_first:
        return "it reads the image"
    half = tuple(size // 2 for size in conv.kernel_size)
    if conv.dilation != (1, 1) or len(set(conv.kernel_size)) > 1 or len(set(conv.stride)) > 1:
        return "it has dilation, or a kernel or stride that is not square"
    if conv.padding != half or conv.padding_mode != "zeros":
        return f"its padding is {conv.padding} ({conv.padding_mode}), not half its kernel in zeros"
    return ""
