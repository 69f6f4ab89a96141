"""The real convolution of a stem by the native core: faster than PyTorch's, for which three channels are few, and on
memory that the step before gave back. PyTorch's 1x1 convolutions of shortcuts are as fast as ours would be."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ftbnn.nn.layer import is_watched
from ftbnn.nn.native.core import arrays, channels_last, core, empty, is_in_use, is_map, is_plain, share_threads
from ftbnn.nn.rounded import RoundedConv2d

MOST_INPUTS = 4  # channels of images; with more PyTorch's convolutions are as fast


def convolve(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """conv(x), natively where x is a batch of images that wants no gradient."""
    if type(conv) not in (nn.Conv2d, RoundedConv2d) or not _can_run(x, conv):
        result: Tensor = conv(x)
        return result
    weight = conv.multiplied() if isinstance(conv, RoundedConv2d) else conv.weight
    out: Tensor = _Convolution.apply(x, weight, conv.stride, conv.padding)  # type: ignore[no-untyped-call]
    return out


def _can_run(x: Tensor, conv: nn.Conv2d) -> bool:
    wants_gradient = x.requires_grad and torch.is_grad_enabled()
    if not is_in_use() or not is_map(x) or torch.compiler.is_compiling() or is_watched(conv) or wants_gradient:
        return False
    is_simple = conv.bias is None and conv.groups == 1 and conv.dilation == (1, 1) and conv.padding_mode == "zeros"
    if not is_simple or isinstance(conv.padding, str) or not is_plain(conv.weight):
        return False
    inside = all(size + 2 * p >= k for size, p, k in zip(x.shape[2:], conv.padding, conv.kernel_size, strict=True))
    return inside and x.shape[1] == conv.in_channels <= MOST_INPUTS


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: tuple[int, int], padding: tuple[int, int]) -> Tensor:
        share_threads()
        is_last = not weight.is_contiguous() and weight.is_contiguous(memory_format=torch.channels_last)
        x, weight = channels_last(x), weight if is_last else weight.contiguous()
        n, inputs, h, w = x.shape
        outputs, _, *kernel = weight.shape
        oh, ow = ((x.shape[k + 2] + 2 * padding[k] - kernel[k]) // stride[k] + 1 for k in (0, 1))
        out = empty((n, outputs, oh, ow), torch.float32, channels_last=True)
        window = {"kernel": tuple(kernel), "stride": stride, "padding": padding}
        ctx.conv = core.training.RealConv(
            n=n, h=h, w=w, inputs=inputs, outputs=outputs, **window, weight_is_last=is_last
        )
        ctx.conv.forward(torch.get_num_threads(), arrays({"x": x, "weight": weight, "out": out}))
        ctx.save_for_backward(x)
        ctx.like = weight
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight_grad = torch.empty_like(ctx.like)
        given = {"x": ctx.saved_tensors[0], "grad": channels_last(grads[0]), "weight_grad": weight_grad}
        ctx.conv.backward(torch.get_num_threads(), arrays(given))
        return None, weight_grad, None, None
