"""Which code computes layers and blocks. One setting for the whole process, as PyTorch's own backends have it.

torch     PyTorch's operators
native    the native core, as far as it can: whole blocks, stems, pools; the rest in PyTorch
native8   the same, with the gradients of binary convolutions made of bytes (docs/decisions/0008)
plain     the paper's formulation as written: what is compared with, and what other formats can express
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from ftbnn.errors import unknown

Backend = Literal["torch", "native", "native8", "plain"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)

_in_use: list[Backend] = ["torch"]


def backend() -> Backend:
    """The one in use."""
    return _in_use[-1]


def is_native() -> bool:
    return _in_use[-1].startswith("native")


@contextmanager
def use_backend(name: Backend) -> Iterator[None]:
    """Networks that run inside use this backend."""
    if name not in BACKENDS:
        raise unknown("backend", name, BACKENDS)
    if name.startswith("native"):
        from ftbnn.nn.native import require

        require(name)
    _in_use.append(name)
    try:
        yield
    finally:
        _in_use.pop()
