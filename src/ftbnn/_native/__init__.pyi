"""The native core."""

from typing import Annotated, Any, overload

import numpy
from numpy.typing import NDArray

from ftbnn._native import (
    bench as bench,
    data as data,
    training as training
)
import ftbnn.errors


def capabilities() -> dict[str, Any]:
    """
    What this machine can do: cpu, features and isas that may run here, best first; the isa in use (the best, or the one FTBNN_ISA names), which kernels that means by family, isas whose engines differ, and whether training has kernels of its own that are faster than PyTorch's, and such for gradients in bytes. Raises UserError if FTBNN_ISA names one that cannot be used.
    """

def cores() -> int:
    """
    Cores that this process may use: of its affinity, and of a container's quota.
    """

def hides_tile_palette() -> bool:
    """True where libraries that use AMX end in SIGILL."""

class FormatError(ftbnn.errors.UserError):
    pass

def read_graph(path: str) -> tuple[list[tuple[int, int, int]], list[dict[str, object]]]:
    """
    The values and operators of a file, as docs/format.md names them; arrays are bytes.
    """

class Engine:
    """A loaded .ftbnn file."""

    @overload
    def __init__(self, path: str, threads: int, *, max_bytes: int = 1073741824, max_macs: int = 1099511627776, isa: str = '', any_order: bool = False) -> None: ...

    @overload
    def __init__(self, data: bytes, threads: int, *, max_bytes: int = 1073741824, max_macs: int = 1099511627776, isa: str = '', any_order: bool = False) -> None: ...

    def run_f32(self, images: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
        """Normalised (N, C, H, W) images to (N, outputs)."""

    def run_u8(self, images: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
        """8-bit (N, H, W, C) images to (N, outputs)."""

    def profile_f32(self, image: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), order='C', device='cpu', writable=False)], rounds: int) -> list[float]:
        """
        Seconds of the input's conversion and of each operator, the fastest of `rounds`.
        """

    def profile_u8(self, image: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), order='C', device='cpu', writable=False)], rounds: int) -> list[float]:
        """The same for an 8-bit image."""

    def operators(self) -> list[tuple[str, str, int, tuple[int, int, int], int, int]]:
        """
        (path, kind, MACs, output shape, bits per weight, bytes of weights) of each operator.
        """

    @property
    def name(self) -> str: ...

    @property
    def input_shape(self) -> tuple[int, int, int]: ...

    @property
    def output_shape(self) -> tuple[int, int, int]: ...

    @property
    def mean(self) -> list[float]: ...

    @property
    def std(self) -> list[float]: ...

    @property
    def resize(self) -> int: ...

    @property
    def class_names(self) -> list[str]: ...

    @property
    def isa(self) -> str: ...

    @property
    def threads(self) -> int: ...
