"""A whole block as one operator of the native core: sign, binary convolution, BatchNorm, shortcut, non-linearity.

What it keeps for backward is small: one bit per input for its sign, one for the straight-through mask, and the
convolution's integers in 16 bits; a float tensor only if it lives anyway. `fits` says which blocks it can do; the
others, and every block whose layers somebody watches with hooks, run in PyTorch.
"""

from collections.abc import Callable
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
    empty,
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
        and norm.num_features == conv.out_channels
        and slopes(act, conv.out_channels) is not None
        and all(is_plain(tensor) for module in (conv, norm, act) for tensor in module.parameters())
        and not any(is_watched(module) for module in (sign, conv, norm, act))
    )


def fits(x: Tensor, layers: Layers) -> bool:
    """Whether this block runs natively on this input."""
    conv = layers.conv
    return (
        isinstance(conv, BConv)  # somebody may have put another layer in its place
        and conv.backend != "torch"
        and type(x) in (Tensor, nn.Parameter)
        and x.dim() == 4
        and is_plain(x)
        and x.shape[1] == conv.in_channels
        and x.numel() > 0
        and all(
            size + 2 * pad >= kernel
            for size, pad, kernel in zip(x.shape[2:], conv.padding, conv.kernel_size, strict=True)
        )
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
    setting = _Setting(layers.sign, conv, is_identity, *statistics(norm, _output_positions(x, conv)))
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


def _output_size(x: Tensor, conv: BConv) -> tuple[int, int]:
    h, w = (
        (size + 2 * pad - kernel) // stride + 1
        for size, pad, kernel, stride in zip(x.shape[2:], conv.padding, conv.kernel_size, conv.stride, strict=True)
    )
    return h, w


def _output_positions(x: Tensor, conv: BConv) -> int:
    h, w = _output_size(x, conv)
    return x.shape[0] * h * w


def _dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


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
        proxies = tuple(_dense(part) for part in (weight, tail))
        factor = _factor(conv, proxies)
        n, _, h, w = x.shape
        oh, ow = _output_size(x, conv)
        words, channels = -(-conv.in_channels // 64), conv.out_channels
        needs_grad = any(ctx.needs_input_grad)
        block = _native.training.Block(
            (n, h, w, conv.in_channels, channels, *conv.kernel_size, *conv.stride, *conv.padding, conv.groups),
            zero_one=setting.sign.zero_one,
            bound=setting.sign.bound,
            weight_bound=conv.bound,
            identity=setting.is_identity,
            batch_stats=setting.batch_stats,
            byte_gradients=conv.backend == "native8",
            eps=setting.eps,
            momentum=setting.momentum,
            parameters=tuple(address(p) for p in (*proxies, factor, gamma, beta, left, right)),
        )
        codes = empty((n, h, w, words), torch.int64)
        inside = empty((n, h, w, words), torch.int64) if ctx.needs_input_grad[0] else None
        y = empty((n, oh, ow, channels), torch.int16)
        saved = torch.empty(4, channels)
        out = empty((n, channels, oh, ow), torch.float32, channels_last=True)
        running = setting.running or (None, None)
        times = block.forward(
            torch.get_num_threads(),
            *(address(t) for t in (x, shortcut, *running, codes, inside, y, saved, out)),
        )
        macs = n * oh * ow * sum(p.numel() for p in proxies if p is not None)
        for listener in listeners:
            listener(conv, "forward", macs, times)
        if needs_grad:
            is_linear = left is None and right is None
            kept = None if is_linear else x if setting.is_identity else shortcut
            parameters = (*proxies, factor, gamma, beta, left, right)
            ctx.save_for_backward(kept, codes, inside, y, saved, *parameters)
            ctx.block, ctx.conv, ctx.macs, ctx.shape = block, conv, macs, x.shape
            ctx.is_identity, ctx.has_shortcut = setting.is_identity, shortcut is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        shortcut, codes, inside, y, saved, weight, tail, _, gamma, beta, left, right = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grad = channels_last(grads[0])
        wanted: list[Tensor | None] = [
            empty(tuple(ctx.shape), torch.float32, channels_last=True) if needs[0] else None,
            empty(tuple(grad.shape), torch.float32, channels_last=True) if needs[1] else None,
            *(empty(tuple(p.shape), p.dtype) if p is not None and any(needs[2:4]) else None for p in (weight, tail)),
        ]
        parameters = zip((gamma, beta, left, right), needs[4:8], strict=True)
        wanted += [torch.empty_like(p) if p is not None and need else None for p, need in parameters]
        times = ctx.block.backward(
            torch.get_num_threads(),
            *(address(t) for t in (grad, shortcut, codes, inside, y, saved)),
            tuple(address(t) for t in wanted),
        )
        for listener in listeners:
            listener(ctx.conv, "backward", ctx.macs, times)
        return (*wanted, None)


def _factor(conv: BConv, proxies: tuple[Tensor | None, ...]) -> Tensor | None:
    if not isinstance(conv, ScaledBConv):
        return None
    return torch.cat([part.detach().abs().mean(dim=(1, 2, 3)) for part in proxies if part is not None])
