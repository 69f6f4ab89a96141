"""A whole block as one operator of the native core: sign, binary convolution, BatchNorm, shortcut, non-linearity.

What it keeps for backward is small: one bit per input for its sign, one for the straight-through mask, and the
convolution's integers in 16 bits; a float tensor only if it lives anyway. `fits` says which blocks it can do; the
others, and every block whose layers somebody watches with hooks, run in PyTorch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ftbnn import _native
from ftbnn.nn.bconv import BConv, ScaledBConv
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
from ftbnn.nn.sign import Sign

LARGEST_OUTPUT = 32767  # the convolution's integers are kept in 16 bits
LARGEST_KERNEL = 15
MOST_TAPS = 128  # of the gradients: GRAD_TAPS of native/kernels/conv_grad/conv_grad.h
FASTER_WITH = ("amx", "avx512bf16", "avx512", "avx2")  # ISAs whose kernels beat PyTorch

# What a profile listens to: (convolution, "forward" or "backward", multiply-accumulates, seconds of its phases).
Listener = Callable[[BConv, str, int, tuple[float, ...]], None]
FORWARD_PHASES = ("pack weights", "pack", "conv", "activate")
BACKWARD_PHASES = ("sums", "gradient", "conv gradients")
listeners: list[Listener] = []


@dataclass(frozen=True)
class Layers:
    """The layers of one block."""

    sign: Sign
    conv: BConv
    norm: nn.Module
    act: nn.Module


def can_fuse(layers: Layers) -> bool:
    """Whether layers of these kinds, in their present modes, are a block that the native core knows."""
    sign, conv, norm, act = layers.sign, layers.conv, layers.norm, layers.act
    if type(sign) is not Sign or type(conv) not in (BConv, ScaledBConv) or type(norm) is not nn.BatchNorm2d:
        return False
    inputs = max(conv.proxies(part).shape[1] for part in conv.parts)
    kh, kw = conv.kernel_size
    return (
        sign.mode == "sign"
        and conv.mode == "binary"
        and inputs * kh * kw <= LARGEST_OUTPUT
        and max(kh, kw) <= LARGEST_KERNEL
        and kh * kw <= MOST_TAPS
        and norm.num_features == conv.out_channels
        and slopes(act, conv.out_channels) is not None
        and all(is_plain(tensor) for module in (conv, norm, act) for tensor in module.parameters())
        and is_dense(norm.running_mean)
        and is_dense(norm.running_var)
        and not any(is_watched(module) for module in (sign, conv, norm, act))
    )


def fits(x: Tensor, layers: Layers, shortcut: Tensor | None) -> bool:
    """Whether this block runs natively on this input, with this shortcut."""
    conv = layers.conv
    return (
        isinstance(conv, BConv)  # somebody may have put another layer in its place
        and conv.backend != "torch"
        and is_map(x)
        and x.shape[1] == conv.in_channels
        and all(
            size + 2 * pad >= kernel
            for size, pad, kernel in zip(x.shape[2:], conv.padding, conv.kernel_size, strict=True)
        )
        and (shortcut is None or (is_map(shortcut) and shortcut.shape == _output_shape(x, conv)))
        and can_fuse(layers)
        and not is_transformed()
    )


def run(x: Tensor, layers: Layers, shortcut: Tensor | None) -> Tensor:
    """act(norm(conv(sign(x))) + shortcut), for what `fits`."""
    conv, norm = layers.conv, layers.norm
    assert isinstance(norm, nn.BatchNorm2d)
    pair = slopes(layers.act, conv.out_channels)
    assert pair is not None
    share_threads()
    is_identity = shortcut is x
    n, _, oh, ow = _output_shape(x, conv)
    setting = _Setting(layers.sign, conv, is_identity, *statistics(norm, n * oh * ow))
    out: Tensor = _Block.apply(  # type: ignore[no-untyped-call]
        x, None if is_identity else shortcut, conv.weight, conv.tail, norm.weight, norm.bias, *pair, setting
    )
    return out


@dataclass(frozen=True)
class _Setting:
    sign: Sign
    conv: BConv
    is_identity: bool
    batch_stats: bool
    running: tuple[Tensor, Tensor] | None
    eps: float
    momentum: float

    def block(self, shape: torch.Size, parameters: Sequence[Tensor | None]) -> _native.training.Block:
        """Keeps addresses, so it is made where they are used: autograd may move what it saves between the two."""
        conv, (n, _, h, w) = self.conv, shape
        return _native.training.Block(
            (n, h, w, conv.in_channels, conv.out_channels, *_window(conv), conv.groups),
            zero_one=self.sign.zero_one,
            bound=self.sign.bound,
            weight_bound=conv.bound,
            identity=self.is_identity,
            batch_stats=self.batch_stats,
            byte_gradients=conv.backend == "native8",
            eps=self.eps,
            momentum=self.momentum,
            parameters=tuple(address(p) for p in parameters),
        )


def _window(conv: BConv) -> tuple[int, int, int, int, int, int]:
    return (*conv.kernel_size, *conv.stride, *conv.padding)


def _output_shape(x: Tensor, conv: BConv) -> tuple[int, int, int, int]:
    h, w = (
        (size + 2 * pad - kernel) // stride + 1
        for size, pad, kernel, stride in zip(x.shape[2:], conv.padding, conv.kernel_size, conv.stride, strict=True)
    )
    return x.shape[0], conv.out_channels, h, w


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes by position
        ctx: Any,
        x: Tensor,
        shortcut: Tensor | None,
        weight: Tensor,
        tail: Tensor | None,
        gamma: Tensor | None,
        beta: Tensor | None,
        left: Tensor | None,
        right: Tensor | None,
        setting: _Setting,
    ) -> Tensor:
        conv = setting.conv
        x, shortcut = channels_last(x), None if shortcut is None else channels_last(shortcut)
        proxies = (dense(weight), dense(tail))
        parameters = (*proxies, _factor(conv, proxies), *(dense(p) for p in (gamma, beta, left, right)))
        n, _, h, w = x.shape
        _, channels, oh, ow = _output_shape(x, conv)
        words = -(-conv.in_channels // 64)
        codes = empty((n, h, w, words), torch.int64)
        inside = empty((n, h, w, words), torch.int64) if ctx.needs_input_grad[0] else None
        y = empty((n, oh, ow, channels), torch.int16)
        saved = empty((4, channels), torch.float32)
        out = empty((n, channels, oh, ow), torch.float32, channels_last=True)
        running = setting.running or (None, None)
        times = setting.block(x.shape, parameters).forward(
            torch.get_num_threads(),
            *(address(t) for t in (x, shortcut, *running, codes, inside, y, saved, out)),
        )
        macs = n * oh * ow * sum(p.numel() for p in proxies if p is not None)
        for listener in listeners:
            listener(conv, "forward", macs, times)
        if any(ctx.needs_input_grad):
            is_linear = left is None and right is None
            kept = None if is_linear else x if setting.is_identity else shortcut
            ctx.save_for_backward(kept, codes, inside, y, saved, *parameters)
            ctx.setting, ctx.macs, ctx.shape = setting, macs, x.shape
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        shortcut, codes, inside, y, saved, *parameters = ctx.saved_tensors
        weight, tail, _, *channelwise = parameters
        needs = ctx.needs_input_grad
        grad = channels_last(grads[0])
        wanted: list[Tensor | None] = [
            empty(tuple(ctx.shape), torch.float32, channels_last=True) if needs[0] else None,
            empty(tuple(grad.shape), torch.float32, channels_last=True) if needs[1] else None,
            *(empty(tuple(p.shape), p.dtype) if p is not None and any(needs[2:4]) else None for p in (weight, tail)),
        ]
        pairs = zip(channelwise, needs[4:8], strict=True)
        wanted += [torch.empty_like(p) if p is not None and need else None for p, need in pairs]
        times = ctx.setting.block(ctx.shape, parameters).backward(
            torch.get_num_threads(),
            *(address(t) for t in (grad, shortcut, codes, inside, y, saved)),
            tuple(address(t) for t in wanted),
        )
        for listener in listeners:
            listener(ctx.setting.conv, "backward", ctx.macs, times)
        return (*wanted, None)


def _factor(conv: BConv, proxies: tuple[Tensor | None, ...]) -> Tensor | None:
    if not isinstance(conv, ScaledBConv):
        return None
    return torch.cat([part.detach().abs().mean(dim=(1, 2, 3)) for part in proxies if part is not None])
