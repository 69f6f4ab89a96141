"""Average pooling by the native core: it keeps nothing for backward, where PyTorch keeps its whole input."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ftbnn.nn.layer import is_watched
from ftbnn.nn.native.core import channels_last, core, empty, is_in_use, is_map, share_threads


class Window(NamedTuple):
    """Kernel, stride and padding of a pool, each of height and width, and the size of the map that it gives."""

    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int
    oh: int
    ow: int

    @property
    def kernel(self) -> tuple[int, int]:
        return self.kh, self.kw

    @property
    def stride(self) -> tuple[int, int]:
        return self.sh, self.sw

    def pads(self, h: int, w: int) -> tuple[int, int, int, int]:
        """Left, right, top, bottom: what the windows cover beyond the map."""
        right = max(0, (self.ow - 1) * self.sw + self.kw - self.pw - w)
        bottom = max(0, (self.oh - 1) * self.sh + self.kh - self.ph - h)
        return self.pw, right, self.ph, bottom

    def told(self, h: int, w: int, channels: int) -> dict[str, Any]:
        """As the core names it."""
        pairs = {
            "kernel": self.kernel,
            "stride": self.stride,
            "padding": (self.ph, self.pw),
            "size": (self.oh, self.ow),
        }
        return {"h": h, "w": w, "channels": channels, **pairs}


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def window_of(shape: tuple[int, ...], pool: nn.AvgPool2d | nn.MaxPool2d) -> Window | None:
    """The window of this pooling of a map, as PyTorch has it; None for one that PyTorch refuses."""
    kernel, stride, padding = _pair(pool.kernel_size), _pair(pool.stride), _pair(pool.padding)
    outputs = []
    for size, k, s, p in zip(shape[2:], kernel, stride, padding, strict=True):
        if k < 1 or s < 1 or not 0 <= 2 * p <= k or size + 2 * p < k:
            return None
        out = (size + 2 * p - k + (s - 1 if pool.ceil_mode else 0)) // s + 1
        if pool.ceil_mode and (out - 1) * s >= size + p:
            out -= 1  # the last window must begin inside the map or its left padding
        outputs.append(out)
    return Window(*kernel, *stride, *padding, *outputs)


def average(x: Tensor, pool: nn.Module) -> Tensor:
    """pool(x), natively where that can be."""
    if type(pool) is nn.AvgPool2d and _can_run(x) and not pool.divisor_override and not is_watched(pool):
        window = window_of(tuple(x.shape), pool)
        if window is not None:
            share_threads()
            out: Tensor = _Average.apply(x, window, pool.count_include_pad)  # type: ignore[no-untyped-call]
            return out
    result: Tensor = pool(x)
    return result


def _can_run(x: Tensor) -> bool:
    return is_in_use() and is_map(x) and not torch.compiler.is_compiling()


class _Average(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Window, count_pad: bool) -> Tensor:
        x = channels_last(x)
        n, channels, h, w = x.shape
        out = empty((n, channels, window.oh, window.ow), torch.float32, channels_last=True)
        ctx.shape = x.shape
        ctx.average = core.training.Average(n=n, count_pad=count_pad, **window.told(h, w, channels))
        ctx.average.forward(
            torch.get_num_threads(), {"x": (x.data_ptr(), x.numel()), "out": (out.data_ptr(), out.numel())}
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = channels_last(grads[0])
        to = empty(tuple(ctx.shape), torch.float32, channels_last=True)
        given = {"grad": (grad.data_ptr(), grad.numel()), "x_grad": (to.data_ptr(), to.numel())}
        ctx.average.backward(torch.get_num_threads(), given)
        return to, None, None
