"""BatchNorm with what follows it, a shortcut, a non-linearity or a max-pool, as one operator of the native core.

It keeps its input and the shortcut for backward, and of a pool one byte per output; never the normalised map.
"""

from collections.abc import Sequence
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
    dense,
    empty,
    is_dense,
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


def normalise(
    x: Tensor, norm: nn.Module, then: nn.Module | None, backend: Backend, *, shortcut: Tensor | None = None
) -> Tensor:
    """then(norm(x) + shortcut), natively where that can be."""
    if backend != "torch" and is_map(x) and type(norm) is nn.BatchNorm2d and _can_fuse(x, norm, then, shortcut):
        return _run(x, norm, then, shortcut)
    out: Tensor = norm(x) if shortcut is None else norm(x) + shortcut
    return out if then is None else then(out)


def _can_fuse(x: Tensor, norm: nn.BatchNorm2d, then: nn.Module | None, shortcut: Tensor | None = None) -> bool:
    layers = (norm,) if then is None else (norm, then)
    can_pool = shortcut is None and _pool_shape(x, then) is not None
    return (
        norm.num_features == x.shape[1]
        and (slopes(then, norm.num_features) is not None or can_pool)
        and (shortcut is None or (is_map(shortcut) and shortcut.shape == x.shape))
        and all(is_plain(tensor) for layer in layers for tensor in layer.parameters())
        and is_dense(norm.running_mean)
        and is_dense(norm.running_var)
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

    def norm(self, shape: torch.Size, parameters: Sequence[Tensor | None]) -> _native.training.Norm:
        """Keeps addresses, so it is made where they are used: autograd may move what it saves between the two."""
        n, channels, h, w = shape
        return _native.training.Norm(
            (n, h, w, channels),
            self.pool,
            batch_stats=self.batch_stats,
            eps=self.eps,
            momentum=self.momentum,
            parameters=tuple(address(p) for p in parameters),
        )


def _run(x: Tensor, norm: nn.BatchNorm2d, then: nn.Module | None, shortcut: Tensor | None) -> Tensor:
    share_threads()
    setting = _Setting(_pool_shape(x, then), *statistics(norm, x.numel() // x.shape[1]))
    left, right = slopes(then, norm.num_features) or (None, None)
    out: Tensor = _Norm.apply(  # type: ignore[no-untyped-call]
        x, shortcut, norm.weight, norm.bias, left, right, setting
    )
    return out


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes by position
        ctx: Any,
        x: Tensor,
        shortcut: Tensor | None,
        gamma: Tensor | None,
        beta: Tensor | None,
        left: Tensor | None,
        right: Tensor | None,
        setting: _Setting,
    ) -> Tensor:
        x, shortcut = channels_last(x), None if shortcut is None else channels_last(shortcut)
        parameters = tuple(dense(p) for p in (gamma, beta, left, right))
        n, channels, h, w = x.shape
        pool = setting.pool
        size = (h, w) if pool is None else pool[3:5]
        saved = empty((4, channels), torch.float32)
        out = empty((n, channels, *size), torch.float32, channels_last=True)
        taps = None if pool is None else empty((n, *size, channels), torch.uint8)
        running = setting.running or (None, None)
        norm = setting.norm(x.shape, parameters)
        norm.forward(torch.get_num_threads(), *(address(t) for t in (x, shortcut, *running, saved, out, taps)))
        if any(ctx.needs_input_grad):
            is_linear = left is None and right is None
            ctx.save_for_backward(x, None if is_linear else shortcut, taps, saved, *parameters)
            ctx.setting = setting
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, shortcut, taps, saved, *parameters = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grad = channels_last(grads[0])
        wanted = [
            empty(tuple(x.shape), torch.float32, channels_last=True) if any(needs[:2]) else None,
            empty(tuple(x.shape), torch.float32, channels_last=True) if needs[1] else None,
            *(torch.empty_like(p) if need else None for p, need in zip(parameters, needs[2:6], strict=True)),
        ]
        ctx.setting.norm(x.shape, parameters).backward(
            torch.get_num_threads(),
            *(address(t) for t in (grad, x, shortcut, taps, saved)),
            tuple(address(t) for t in wanted),
        )
        return (*wanted, None)
