"""A stem by the native core: the convolution of images, its BatchNorm and what follows, as one operator.

    x = conv(images, weight),    out = norm(x) as nn/native/norm.py has it

PyTorch's convolutions have little to do with three channels, and x, the largest map of a network, would go through the
memory five times. Here x is written once, kept for backward, and its gradient never leaves the cache.
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

from ftbnn.nn.layer import is_watched
from ftbnn.nn.native.core import core, has_channels_last, is_in_use, is_map, is_plain
from ftbnn.nn.native.norm import NormOperation, Settings, fusion_of, normalise, run_fused
from ftbnn.nn.native.operation import Room, Tensors, map_room
from ftbnn.nn.rounded import RoundedConv2d

Shape = tuple[int, ...]
MOST_INPUTS = 4  # channels of images; with more PyTorch's convolutions are as fast


class _StemOperation(NormOperation):
    name = "stem"
    required: ClassVar[tuple[str, ...]] = ("images", "weight")
    optional: ClassVar[tuple[str, ...]] = ("gamma", "beta", "left", "right", "running_mean", "running_var")
    learned: ClassVar[tuple[str, ...]] = ("weight", "gamma", "beta", "left", "right")
    results: ClassVar[tuple[str, ...]] = ("out", "new_mean", "new_var", "saved", "taps", "x")
    maps: ClassVar[tuple[str, ...]] = ("images", "x", "out", "grad")
    either: ClassVar[tuple[str, ...]] = ("weight",)
    kept: ClassVar[tuple[str, ...]] = (
        "images",
        "weight",
        "gamma",
        "beta",
        "left",
        "right",
        "saved",
        "taps",
        "out",
        "x",
    )

    def rooms(self, given: Tensors, settings: Settings) -> dict[str, Room]:
        x = map_room(*_out_shape(given["images"].shape, given["weight"].shape, settings.conv))
        return {**super().rooms({**given, "x": x}, settings), "x": x}

    def gradient_rooms(self, given: Tensors, settings: Settings, wanted: set[str]) -> dict[str, Room]:
        makes = {"weight", *wanted}  # it is made with the others
        return {
            **super().gradient_rooms(given, settings, makes),
            "weight": Room(tuple(given["weight"].shape), is_map=has_channels_last(given["weight"])),
        }

    def native(self, given: Tensors, settings: Settings) -> Any:
        weight = given["weight"]
        n, inputs, h, w = given["images"].shape
        outputs, _, *kernel = weight.shape
        conv = core.training.RealConv(
            n=n,
            h=h,
            w=w,
            inputs=inputs,
            outputs=outputs,
            kernel=tuple(kernel),
            stride=settings.conv[:2],
            padding=settings.conv[2:],
            weight_is_last=has_channels_last(weight),
        )
        x = map_room(*_out_shape(given["images"].shape, given["weight"].shape, settings.conv))
        return core.training.Stem(conv=conv, norm=super().native({"x": x}, settings))

    def plain(self, given: Tensors, settings: Settings) -> Tensors:
        x = F.conv2d(given["images"], given["weight"], None, settings.conv[:2], settings.conv[2:])
        return {**super().plain({**given, "x": x, "shortcut": None}, settings), "x": x}

    def plain_gradients(self, given: Tensors, settings: Settings) -> Tensors:
        found = super().plain_gradients({**given, "shortcut": None}, settings)
        window = (settings.conv[:2], settings.conv[2:])
        size = given["weight"].shape
        return found | {"weight": conv2d_weight(given["images"], size, found["x"], *window)}  # type: ignore[no-untyped-call]


def _out_shape(images: Shape, weight: Shape, window: Shape) -> Shape:
    (n, _, h, w), (outputs, _, kh, kw), (sh, sw, ph, pw) = images, weight, window
    return n, outputs, (h + 2 * ph - kh) // sh + 1, (w + 2 * pw - kw) // sw + 1


STEM = _StemOperation()


def stem(images: Tensor, conv: nn.Conv2d, norm: nn.Module, then: nn.Module | None) -> Tensor:
    """then(norm(conv(images))), natively where that can be and the images want no gradient."""
    if _can_run(images, conv):
        assert not isinstance(conv.padding, str)
        weight = conv.multiplied() if isinstance(conv, RoundedConv2d) else conv.weight
        window = (*conv.stride, *conv.padding)
        shape = _out_shape(images.shape, weight.shape, window)
        fusion = fusion_of(norm, then, shape, has_shortcut=False)
        if fusion is not None:
            assert isinstance(norm, nn.BatchNorm2d)
            positions = shape[0] * shape[2] * shape[3]
            return run_fused(STEM, {"images": images, "weight": weight}, norm, fusion, positions, conv=window)
    return normalise(conv(images), norm, then)


def _can_run(images: Tensor, conv: nn.Conv2d) -> bool:
    wants_gradient = images.requires_grad and torch.is_grad_enabled()
    if not is_in_use() or type(conv) not in (nn.Conv2d, RoundedConv2d) or not is_map(images) or wants_gradient:
        return False
    is_simple = conv.bias is None and conv.groups == 1 and conv.dilation == (1, 1) and conv.padding_mode == "zeros"
    if not is_simple or isinstance(conv.padding, str) or is_watched(conv) or not is_plain(conv.weight):
        return False
    inside = all(size + 2 * p >= k for size, p, k in zip(images.shape[2:], conv.padding, conv.kernel_size, strict=True))
    return inside and images.shape[1] == conv.in_channels <= MOST_INPUTS
