"""BatchNorm with what follows it, a non-linearity or a max-pool, as one operator of the native core.

It keeps its input for backward, and of a pool one byte per output; never the normalised map.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ftbnn import _native
from ftbnn.nn.bconv import Backend
from ftbnn.nn.native_call import (
    address,
    channels_last,
    empty,
    is_map,
    is_plain,
    is_transformed,
    is_watched,
    share_threads,
    slopes,
    statistics,
)
from ftbnn.nn.native_pool import Shape, shape_of

MOST_TAPS = 256  # the place of a maximum is kept in 8 bits


def normalise(x: Tensor, norm: nn.Module, then: nn.Module | None, backend: Backend) -> Tensor:
    """then(norm(x)), natively where that can be."""
    if backend != "torch" and is_map(x) and type(norm) is nn.BatchNorm2d and _can_fuse(x, norm, then):
        return _run(x, norm, then)
    out: Tensor = norm(x)
    return out if then is None else then(out)


def _can_fuse(x: Tensor, norm: nn.BatchNorm2d, then: nn.Module | None) -> bool:
    layers = (norm,) if then is None else (norm, then)
    return (
        norm.num_features == x.shape[1]
        and (slopes(then, norm.num_features) is not None or _pool_shape(x, then) is not None)
        and all(is_plain(tensor) for layer in layers for tensor in layer.parameters())
        and is_plain(norm.running_mean)
        and not any(is_watched(layer) for layer in layers)
        and not is_transformed()
    )


def _pool_shape(x: Tensor, pool: nn.Module | None) -> Shape | None:
    if type(pool) is not nn.MaxPool2d or pool.return_indices or pool.dilation not in (1, (1, 1)):
        return None
    shape = shape_of(x, pool)
    return None if shape is None or shape[5] * shape[6] > MOST_TAPS else shape


@dataclass(frozen=True)
class _Setting:
    pool: Shape | None
    batch_stats: bool
    running: tuple[Tensor, Tensor] | None
    eps: float
    momentum: float


def _run(x: Tensor, norm: nn.BatchNorm2d, then: nn.Module | None) -> Tensor:
    share_threads()
    setting = _Setting(_pool_shape(x, then), *statistics(norm, x.numel() // x.shape[1]))
    left, right = slopes(then, norm.num_features) or (None, None)
    out: Tensor = _Norm.apply(x, norm.weight, norm.bias, left, right, setting)  # type: ignore[no-untyped-call]
    return out


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes by position
        ctx: Any,
        x: Tensor,
        gamma: Tensor | None,
        beta: Tensor | None,
        left: Tensor | None,
        right: Tensor | None,
        setting: _Setting,
    ) -> Tensor:
        x = channels_last(x)
        n, channels, h, w = x.shape
        pool = setting.pool
        norm = _native.training.Norm(
            (n, h, w, channels),
            pool,
            batch_stats=setting.batch_stats,
            eps=setting.eps,
            momentum=setting.momentum,
            parameters=tuple(address(p) for p in (gamma, beta, left, right)),
        )
        size = (h, w) if pool is None else pool[3:5]
        saved = torch.empty(4, channels)
        out = empty((n, channels, *size), torch.float32, channels_last=True)
        taps = None if pool is None else empty((n, *size, channels), torch.uint8)
        running = setting.running or (None, None)
        norm.forward(torch.get_num_threads(), *(address(t) for t in (x, *running, saved, out, taps)))
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(x, taps, saved, gamma, beta, left, right)
            ctx.norm = norm
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, taps, saved, *parameters = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grad = channels_last(grads[0])
        wanted = [
            empty(tuple(x.shape), torch.float32, channels_last=True) if needs[0] else None,
            *(torch.empty_like(p) if need else None for p, need in zip(parameters, needs[1:5], strict=True)),
        ]
        ctx.norm.backward(
            torch.get_num_threads(),
            *(address(t) for t in (grad, x, taps, saved)),
            tuple(address(t) for t in wanted),
        )
        return (*wanted, None)
