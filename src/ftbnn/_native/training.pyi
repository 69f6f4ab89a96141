"""
Blocks of a binary network, forward and backward; native/training/block.h is the contract.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


def use_launcher(address: int) -> None:
    """
    Runs tasks by the GOMP_parallel at this address; 0 for threads of our own.
    """

def binary_conv(isa: str, shape: Sequence[int], zero_one: bool, codes: int, weight: int, tail: int, y: int, sums: int, squares: int, threads: int = 1) -> bool:
    """
    A block's convolution alone, for tests; isa as for kernels.bconv_rows. True if tiles did it.
    """

def run_tasks(threads: int, count: int, failing: int) -> int:
    """
    For tests: runs tasks; those whose numbers are multiples of `failing` (0: none) run out of memory.
    """

def take_block(bytes: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')]:
    """Uninitialised memory, kept for the next caller when it is dropped."""

def release_blocks() -> None:
    """Gives the memory of blocks that nobody has back to the system."""

class Block:
    """
    One block for one shape of input; it keeps the addresses of its parameters.
    """

    def __init__(self, shape: Sequence[int], *, zero_one: bool, bound: float, weight_bound: float, identity: bool, batch_stats: bool, byte_gradients: bool, eps: float, momentum: float, parameters: Sequence[int]) -> None:
        """
        shape: n, h, w, in, out, kh, kw, sh, sw, ph, pw, groups; parameters: weight, tail, factor, gamma, beta, left, right.
        """

    @property
    def by_tiles(self) -> bool:
        """Whether its forward convolution runs in tiles."""

    def forward(self, threads: int, x: int, shortcut: int, running_mean: int, running_var: int, codes: int, inside: int, y: int, saved: int, out: int) -> tuple[float, float, float, float]:
        """Seconds of packing weights, packing x, convolution, activation."""

    def backward(self, threads: int, grad: int, shortcut: int, codes: int, inside: int, y: int, saved: int, to: Sequence[int]) -> tuple[float, float, float]:
        """
        to: gradients of x, shortcut, weight, tail, gamma, beta, left, right. Seconds of sums, gradient of y, gradients of the convolution.
        """

def average(threads: int, shape: Sequence[int], count_pad: bool, n: int, x: int, out: int) -> None:
    """shape: h, w, channels, oh, ow, kh, kw, sh, sw, ph, pw."""

def average_backward(threads: int, shape: Sequence[int], count_pad: bool, n: int, grad: int, grad_x: int) -> None: ...

class Norm:
    """
    A BatchNorm for one shape of input; it keeps the addresses of its parameters.
    """

    def __init__(self, shape: Sequence[int], pool: Sequence[int] | None, *, batch_stats: bool, eps: float, momentum: float, parameters: Sequence[int]) -> None:
        """
        shape: n, h, w, channels; pool: as average's shape; parameters: gamma, beta, left, right.
        """

    def forward(self, threads: int, x: int, shortcut: int, running_mean: int, running_var: int, saved: int, out: int, taps: int) -> None: ...

    def backward(self, threads: int, grad: int, x: int, shortcut: int, taps: int, saved: int, to: Sequence[int]) -> None:
        """to: gradients of x, shortcut, gamma, beta, left, right."""

def grad_kernels() -> list[str]:
    """
    Names of the kernels that run here, best first: an ISA each; then those for tests and those of bytes.
    """

def has_byte_kernels() -> bool:
    """Whether gradients in bytes have kernels of their own here."""

def grad_input(isa: str, shape: Sequence[int], gy: int, weight: int, tail: int, inside: int, gx: int, threads: int = 1) -> None:
    """
    Adds to gx; shape is n, h, w, in, out, kh, kw, sh, sw, ph, pw, groups. native/training/conv_grad.h.
    """

def grad_weight(isa: str, shape: Sequence[int], gy: int, codes: int, zero_one: bool, weight: int, tail: int, bound: float, gw: int, gtail: int, threads: int = 1) -> None:
    """Writes gw and gtail."""

def conv_gradients(isa: str, shape: Sequence[int], gy: int, weight: int, tail: int, inside: int, gx: int, codes: int, zero_one: bool, bound: float, gw: int, gtail: int, threads: int = 1) -> None:
    """Both gradients in one pass over gy."""

def time_conv_grad(isa: str, shape: Sequence[int], threads: int, rounds: int) -> tuple[float, float, float, float]:
    """
    Seconds of the input's gradient, of the weights' and of both in one, on random data, and the GMAC/s that the CPU could reach.
    """
