"""What every operator of the native core needs: tensors that it can take, memory for its results, threads."""

import ctypes
import functools
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ftbnn import _native
from ftbnn.nn.fprelu import FPReLU

SMALL_BYTES = 1 << 20  # below, PyTorch's own allocator is good
_NUMPY = {torch.float32: np.float32, torch.int64: np.int64, torch.int16: np.int16, torch.uint8: np.uint8}


def is_plain(tensor: Tensor | None) -> bool:
    return tensor is None or (tensor.dtype == torch.float32 and tensor.device.type == "cpu")


def is_dense(tensor: Tensor | None) -> bool:
    """Plain, and its numbers one after the other."""
    return tensor is None or (is_plain(tensor) and tensor.is_contiguous())


def dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def is_watched(module: nn.Module) -> bool:
    """Whether somebody wants this module itself to be called: hooks, or a forward of their own put into its place."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in vars(module)
        or torch.nn.modules.module._has_any_global_hook()  # type: ignore[no-untyped-call]
    )


def is_map(x: Tensor) -> bool:
    """Whether this is a batch of maps, in a plain tensor with numbers in it."""
    return type(x) in (Tensor, nn.Parameter) and x.dim() == 4 and is_plain(x) and x.numel() > 0


def is_transformed() -> bool:
    """Whether somebody wants to see the operators: a compiler, a tracer or one of torch.func's transforms."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        or torch._C._are_functorch_transforms_active()
        or torch.is_autocast_enabled("cpu")
    )


def slopes(act: nn.Module | None, channels: int) -> tuple[Tensor | None, Tensor | None] | None:
    """(left, right) that make `act` an FPReLU, None for a slope of 1; None if there are none."""
    if act is None or type(act) is nn.Identity:
        return None, None
    if type(act) is nn.ReLU:
        return torch.zeros(channels, dtype=torch.float32, device="cpu"), None
    if type(act) is nn.PReLU and act.num_parameters == channels:
        return act.weight, None
    if type(act) is FPReLU and act.channels == channels:
        return act.left, act.right
    return None


Statistics = tuple[bool, tuple[Tensor, Tensor] | None, float, float]


def statistics(norm: nn.BatchNorm2d, positions: int) -> Statistics:
    """How to normalise, as nn.BatchNorm2d would decide; counts the batch."""
    mean, var = norm.running_mean, norm.running_var
    momentum = norm.momentum or 0.0
    if norm.training and norm.track_running_stats and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
        if norm.momentum is None:
            momentum = 1.0 / float(norm.num_batches_tracked)
    batch_stats = norm.training or mean is None or var is None
    if batch_stats and positions == 1:
        raise ValueError("Expected more than 1 value per channel when training")
    keeps = mean is not None and var is not None and (norm.track_running_stats or not batch_stats)
    return batch_stats, (mean, var) if keeps else None, norm.eps, momentum  # type: ignore[return-value]


@functools.cache
def share_threads() -> None:
    """Runs the native tasks on PyTorch's own OpenMP threads, if it has such.

    Threads of ours would fight with them for the cores: after an operator of PyTorch its threads spin for a while.
    """
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        address = ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        address = None
    _native.training.use_launcher(address or 0)


def empty(shape: tuple[int, ...], dtype: torch.dtype, *, channels_last: bool = False) -> Tensor:
    """A dense tensor; a large one on memory that the step before gave back."""
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL_BYTES:
        layout = torch.channels_last if channels_last else torch.contiguous_format
        return torch.empty(shape, dtype=dtype, device="cpu", memory_format=layout)
    # No view of another tensor: autograd adds a second gradient in place only to what owns its memory alone.
    block = _native.training.take_block(size).view(_NUMPY[dtype])
    if not channels_last:
        return torch.from_numpy(block.reshape(shape))
    n, c, h, w = shape
    return torch.from_numpy(block.reshape(n, h, w, c).transpose(0, 3, 1, 2))


def address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
