"""Channels over and over, without what PyTorch does for it: no fresh pages, no zeros to add to, channels last."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ftbnn.nn.native.core import channels_last, empty, is_in_use, is_map


def repeat(x: Tensor, times: int, rest: int) -> Tensor:
    """The channels of x so many times, then the first `rest` of them once more."""
    if is_in_use() and is_map(x) and not torch.compiler.is_compiling():
        out: Tensor = _Repeat.apply(x, times, rest)  # type: ignore[no-untyped-call]
        return out
    return torch.cat(_parts(x, times, rest), dim=1)


def _parts(x: Tensor, times: int, rest: int) -> list[Tensor]:
    return [x] * times + ([x[:, :rest]] if rest else [])


class _Repeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, times: int, rest: int) -> Tensor:
        n, ctx.channels, h, w = x.shape
        out = empty((n, times * ctx.channels + rest, h, w), torch.float32, channels_last=True)
        return torch.cat(_parts(channels_last(x), times, rest), dim=1, out=out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        n, _, h, w = grads[0].shape
        first, *others = torch.split(grads[0], ctx.channels, dim=1)
        total = empty((n, ctx.channels, h, w), torch.float32, channels_last=True)
        if first.shape[1] < ctx.channels:
            total.zero_()
        if others and others[0].shape[1] == ctx.channels:
            torch.add(first, others.pop(0), out=total)
        else:
            total[:, : first.shape[1]] = first
        for part in others:
            total[:, : part.shape[1]] += part
        return total, None, None
