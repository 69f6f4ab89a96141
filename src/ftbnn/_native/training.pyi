"""
Blocks of a binary network, forward and backward. Arrays are {name: (address, number of elements)}; the headers of native/training name and describe them.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


def use_launcher(address: int) -> None:
    """
    Runs tasks by the GOMP_parallel at this address; 0 for threads of our own.
    """

def take_block(bytes: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')]:
    """Uninitialised memory, kept for the next caller when it is dropped."""

def release_blocks() -> None:
    """Gives the memory of blocks that nobody has back to the system."""

def code_of(address: int, count: int) -> int:
    """1 if all of so many floats are -1 or +1, 2 if all are 0 or 1, else 0."""

class Block:
    """One block for one shape of input."""

    def __init__(self, *, n: int, h: int, w: int, inputs: int, outputs: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], groups: int, zero_one: bool, rule: str, rule_numbers: Sequence[float], weight_bound: float, identity: bool, normalise: bool, batch_stats: bool, byte_gradients: bool, eps: float, momentum: float, limit: float) -> None: ...

    def forward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> tuple[float, float, float, float]:
        """Seconds of packing weights, packing x, convolution, activation."""

    def backward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> tuple[float, float, float]:
        """Seconds of sums, gradient of y, gradients of the convolution."""

class RealConv:
    """A real convolution for one shape of input."""

    def __init__(self, *, n: int, h: int, w: int, inputs: int, outputs: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], weight_is_last: bool) -> None: ...

    def forward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...

    def backward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...

class Norm:
    """A BatchNorm for one shape of input."""

    def __init__(self, *, n: int, h: int, w: int, channels: int, pool: dict[str, object] | None, batch_stats: bool, eps: float, momentum: float) -> None: ...

    def forward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...

    def backward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...

class Average:
    """An average pool for one shape of input."""

    def __init__(self, *, n: int, h: int, w: int, channels: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], size: Sequence[int], count_pad: bool) -> None: ...

    def forward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...

    def backward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...

class Stairs:
    """A function that is constant between edges, for so many numbers."""

    def __init__(self, *, size: int, edges: int) -> None: ...

    def forward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...

    def backward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...

class Stem:
    """A convolution of images and its BatchNorm."""

    def __init__(self, *, conv: RealConv, norm: Norm) -> None: ...

    def forward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...

    def backward(self, threads: int, arrays: dict[str, tuple[int, int]]) -> None: ...
