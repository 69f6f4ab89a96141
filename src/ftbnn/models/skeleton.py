"""A network without numbers: shapes on the meta device, for counting. Takes milliseconds and no memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _SkipInit(TorchFunctionMode):
    """Leaves out torch.nn.init: there is nothing to fill, and on meta tensors it would load torch's compiler (1 s)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@contextmanager
def skeleton() -> Iterator[None]:
    """Modules built inside live on the meta device."""
    with torch.device("meta"), _SkipInit():
        yield
