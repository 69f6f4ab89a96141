"""A whole block as one operator of the native core: sign, binary convolution, BatchNorm, shortcut, non-linearity.

What it keeps for backward is small: one bit per input for its sign, one for the straight-through mask, and the
convolution's integers in 16 bits; a float tensor only if it lives anyway. `fits` says which blocks it can do; the
others, and every block whose layers somebody watches with hooks, run in PyTorch.
"""

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ftbnn import _native
from ftbnn.nn.bconv import BConv, ScaledBConv
from ftbnn.nn.fprelu import FPReLU
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


def _slopes(act: nn.Module, channels: int) -> tuple[Tensor | None, Tensor | None] | None:
    """(left, right) that make `act` an FPReLU, None for a slope of 1; None if there are none."""
    if type(act) is nn.Identity:
        return None, None
    if type(act) is nn.ReLU:
        return torch.zeros(channels), None
    if type(act) is nn.PReLU and act.num_parameters == channels:
        return act.weight, None
    if type(act) is FPReLU and act.channels == channels:
        return act.left, act.right
    return None


def _is_plain(tensor: Tensor | None) -> bool:
    return tensor is None or (tensor.dtype == torch.float32 and tensor.device.type == "cpu")


def _is_watched(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _is_transformed() -> bool:
    """Whether somebody wants to see the operators: a compiler, a tracer or one of torch.func's transforms."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        or torch._C._are_functorch_transforms_active()
        or torch.is_autocast_enabled("cpu")
    )


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
        and _slopes(act, conv.out_channels) is not None
        and all(_is_plain(tensor) for module in (conv, norm, act) for tensor in module.parameters())
        and not any(_is_watched(module) for module in (sign, conv, norm, act))
    )


def fits(x: Tensor, layers: Layers) -> bool:
    """Whether this block runs natively on this input."""
    conv = layers.conv
    return (
        isinstance(conv, BConv)  # somebody may have put another layer in its place
        and conv.backend == "native"
        and type(x) in (Tensor, nn.Parameter)
        and x.dim() == 4
        and _is_plain(x)
        and x.shape[1] == conv.in_channels
        and x.numel() > 0
        and all(
            size + 2 * pad >= kernel
            for size, pad, kernel in zip(x.shape[2:], conv.padding, conv.kernel_size, strict=True)
        )
        and can_fuse(layers)
        and not _is_transformed()
    )


def run(x: Tensor, layers: Layers, shortcut: Tensor | None) -> Tensor:
    """act(norm(conv(sign(x))) + shortcut), for what `fits`."""
    conv, norm = layers.conv, layers.norm
    assert isinstance(norm, nn.BatchNorm2d)
    slopes = _slopes(layers.act, conv.out_channels)
    assert slopes is not None
    _share_threads()
    is_identity = shortcut is x
    setting = _Setting(layers.sign, conv, is_identity, *_statistics(norm, x, conv))
    out: Tensor = _Block.apply(  # type: ignore[no-untyped-call]
        x, None if is_identity else shortcut, conv.weight, conv.tail, norm.weight, norm.bias, *slopes, setting
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


Statistics = tuple[bool, tuple[Tensor, Tensor] | None, float, float]


def _statistics(norm: nn.BatchNorm2d, x: Tensor, conv: BConv) -> Statistics:
    """How to normalise, as nn.BatchNorm2d would decide; counts the batch."""
    mean, var = norm.running_mean, norm.running_var
    momentum = norm.momentum or 0.0
    if norm.training and norm.track_running_stats and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
        if norm.momentum is None:
            momentum = 1.0 / float(norm.num_batches_tracked)
    batch_stats = norm.training or mean is None or var is None
    if norm.training and _output_positions(x, conv) == 1:
        raise ValueError("Expected more than 1 value per channel when training")
    keeps = mean is not None and var is not None and (norm.track_running_stats or not batch_stats)
    return batch_stats, (mean, var) if keeps else None, norm.eps, momentum  # type: ignore[return-value]


def _output_size(x: Tensor, conv: BConv) -> tuple[int, int]:
    h, w = (
        (size + 2 * pad - kernel) // stride + 1
        for size, pad, kernel, stride in zip(x.shape[2:], conv.padding, conv.kernel_size, conv.stride, strict=True)
    )
    return h, w


def _output_positions(x: Tensor, conv: BConv) -> int:
    h, w = _output_size(x, conv)
    return x.shape[0] * h * w


@functools.cache
def _share_threads() -> None:
    """Runs the native tasks on PyTorch's own OpenMP threads, if it has such.

    Threads of ours would fight with them for the cores: after an operator of PyTorch its threads spin for a while.
    """
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        address = ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        address = None
    _native.training.use_launcher(address or 0)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _channels_last(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous(memory_format=torch.channels_last)


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
        x, shortcut = x.contiguous(memory_format=torch.channels_last), _channels_last(shortcut)
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
            eps=setting.eps,
            momentum=setting.momentum,
            parameters=tuple(_address(p) for p in (*proxies, factor, gamma, beta, left, right)),
        )
        codes = torch.empty(n, h, w, words, dtype=torch.int64)
        inside = torch.empty_like(codes) if ctx.needs_input_grad[0] else None
        y = torch.empty(n, oh, ow, channels, dtype=torch.int16)
        saved = torch.empty(4, channels)
        out = torch.empty((n, channels, oh, ow), memory_format=torch.channels_last)
        running = setting.running or (None, None)
        times = block.forward(
            torch.get_num_threads(),
            *(_address(t) for t in (x, shortcut, *running, codes, inside, y, saved, out)),
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
        grad = grads[0].contiguous(memory_format=torch.channels_last)
        wanted: list[Tensor | None] = [
            torch.empty(ctx.shape, memory_format=torch.channels_last) if needs[0] else None,
            torch.empty_like(grad) if needs[1] else None,
            *(torch.empty_like(p) if p is not None else None for p in (weight, tail) if needs[2] or needs[3]),
        ]
        if not (needs[2] or needs[3]):
            wanted += [None, None]
        parameters = zip((gamma, beta, left, right), needs[4:8], strict=True)
        wanted += [torch.empty_like(p) if p is not None and need else None for p, need in parameters]
        times = ctx.block.backward(
            torch.get_num_threads(),
            *(_address(t) for t in (grad, shortcut, codes, inside, y, saved)),
            tuple(_address(t) for t in wanted),
        )
        for listener in listeners:
            listener(ctx.conv, "backward", ctx.macs, times)
        return (*wanted, None)


def _factor(conv: BConv, proxies: tuple[Tensor | None, ...]) -> Tensor | None:
    if not isinstance(conv, ScaledBConv):
        return None
    return torch.cat([part.detach().abs().mean(dim=(1, 2, 3)) for part in proxies if part is not None])
