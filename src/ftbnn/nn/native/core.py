"""What every operator of the native core needs: tensors that it can take, memory for its results, threads.

The compiled extension may be missing (a checkout that was not built, a platform without it): then `core` is None and
everything runs in PyTorch.
"""

import ctypes
import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.nn import operators
from ftbnn.nn.backend import is_native

try:
    from ftbnn import _native
except ImportError:
    _native = None  # type: ignore[assignment]
core = _native

SMALL_BYTES = 1 << 17  # below, PyTorch's own allocator is good
_NUMPY = {torch.float32: np.float32, torch.int64: np.int64, torch.int16: np.int16, torch.uint8: np.uint8}


def require(backend: str) -> None:
    """Raises if this machine cannot compute with a native backend."""
    if core is None:
        raise UserError(f"backend {backend} needs the compiled extension, which is not installed here; torch does not")
    if backend == "native8" and not core.capabilities()["training"]["bytes"]:
        raise UserError("backend native8 needs a CPU with AVX2; native does without")


def is_faster() -> bool:
    """Whether this machine has kernels for training that are faster than PyTorch's."""
    return core is not None and bool(core.capabilities()["training"]["faster"])


def is_in_use() -> bool:
    """Whether native operators are wanted, and nobody wants to see others in their place."""
    return is_native() and not _is_transformed()


def _is_transformed() -> bool:
    if torch.compiler.is_compiling():
        return False  # a compiler takes the operators as they are
    return operators.is_seen() or operators.is_transformed() or torch.is_autocast_enabled("cpu")


def is_plain(tensor: Tensor | None) -> bool:
    return tensor is None or (tensor.dtype == torch.float32 and tensor.device.type == "cpu")


def is_dense(tensor: Tensor | None) -> bool:
    """Plain, and its numbers one after the other."""
    return tensor is None or (is_plain(tensor) and tensor.is_contiguous())


def is_map(x: Tensor) -> bool:
    """Whether this is a batch of maps, in a plain tensor with numbers in it."""
    return type(x) in (Tensor, nn.Parameter) and x.dim() == 4 and is_plain(x) and x.numel() > 0


def dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def has_channels_last(x: Tensor) -> bool:
    """Whether this is dense with its channels last, and in no other order."""
    return not x.is_contiguous() and x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)


def arrays(tensors: Mapping[str, Tensor | None]) -> dict[str, tuple[int, int]]:
    """(address, number of elements) by name, for the core to check and use."""
    return {name: (t.data_ptr(), t.numel()) for name, t in tensors.items() if t is not None}


@functools.cache
def share_threads() -> None:
    """Runs the native tasks on PyTorch's own OpenMP threads, if it has such.

    Threads of ours would fight with them for the cores: after an operator of PyTorch its threads spin for a while.
    """
    core.training.use_launcher(launcher())


def launcher() -> int:
    """The address of what starts PyTorch's threads; 0 if it is not OpenMP's."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def empty(shape: tuple[int, ...], dtype: torch.dtype, *, channels_last: bool = False) -> Tensor:
    """A dense tensor; a large one on memory that the step before gave back."""
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL_BYTES:
        layout = torch.channels_last if channels_last else torch.contiguous_format
        return torch.empty(shape, dtype=dtype, device="cpu", memory_format=layout)
    # No view of another tensor: autograd adds a second gradient in place only to what owns its memory alone.
    block = core.training.take_block(size).view(_NUMPY[dtype])
    if not channels_last:
        return torch.from_numpy(block.reshape(shape))
    n, c, h, w = shape
    return torch.from_numpy(block.reshape(n, h, w, c).transpose(0, 3, 1, 2))


def release_memory() -> None:
    """Gives memory that steps have given back to the system."""
    if core is not None:
        core.training.release_blocks()


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


def settle(norm: nn.BatchNorm2d, results: Any, batch_stats: bool) -> None:
    """Keeps the running statistics that an operator found."""
    if batch_stats and norm.running_mean is not None and norm.running_var is not None and norm.track_running_stats:
        norm.running_mean.copy_(results[0])
        norm.running_var.copy_(results[1])
