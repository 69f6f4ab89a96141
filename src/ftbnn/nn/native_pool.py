"""Average pooling by the native core: it keeps nothing for backward, where PyTorch keeps its whole input."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ftbnn import _native
from ftbnn.nn.bconv import Backend
from ftbnn.nn.native_call import address, channels_last, empty, is_map, is_transformed, is_watched, share_threads

# h, w, channels, out h, out w, kernel, stride and padding, each of height and width
Shape = tuple[int, int, int, int, int, int, int, int, int, int, int]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def shape_of(x: Tensor, pool: nn.AvgPool2d | nn.MaxPool2d) -> Shape | None:
    """The shape of this pooling of x, as PyTorch has it; None for one that PyTorch refuses."""
    _, channels, h, w = x.shape
    kernel, padding = _pair(pool.kernel_size), _pair(pool.padding)
    stride = _pair(pool.stride)
    outputs = []
    for size, k, s, p in zip((h, w), kernel, stride, padding, strict=True):
        if k < 1 or s < 1 or not 0 <= 2 * p <= k or size + 2 * p < k:
            return None
        out = (size + 2 * p - k + (s - 1 if pool.ceil_mode else 0)) // s + 1
        if pool.ceil_mode and (out - 1) * s >= size + p:
            out -= 1  # the last window must begin inside the map or its left padding
        outputs.append(out)
    return (h, w, channels, outputs[0], outputs[1], *kernel, *stride, *padding)


def average(x: Tensor, pool: nn.Module, backend: Backend) -> Tensor:
    """pool(x), natively where that can be."""
    if backend != "torch" and type(pool) is nn.AvgPool2d and not pool.divisor_override and not is_watched(pool):
        shape = shape_of(x, pool) if is_map(x) and not is_transformed() else None
        if shape is not None:
            share_threads()
            out: Tensor = _Average.apply(x, shape, pool.count_include_pad)  # type: ignore[no-untyped-call]
            return out
    result: Tensor = pool(x)
    return result


class _Average(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: Shape, count_pad: bool) -> Tensor:
        x = channels_last(x)
        n, (_, _, channels, oh, ow) = x.shape[0], shape[:5]
        out = empty((n, channels, oh, ow), torch.float32, channels_last=True)
        _native.training.average(torch.get_num_threads(), shape, count_pad, n, address(x), address(out))
        ctx.shape, ctx.count_pad = shape, count_pad
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = channels_last(grads[0])
        n, (h, w, channels) = grad.shape[0], ctx.shape[:3]
        to = empty((n, channels, h, w), torch.float32, channels_last=True)
        _native.training.average_backward(
            torch.get_num_threads(), ctx.shape, ctx.count_pad, n, address(grad), address(to)
        )
        return to, None, None
