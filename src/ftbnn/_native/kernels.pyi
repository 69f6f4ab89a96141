"""
One row of each kernel, for tests; native/kernels/conv_row.h and rows.h are the contracts.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


def conv_row(isa: str, image: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, 32), order='C', device='cpu', writable=False)], *, stride: int, width: int, channels: int, act: str, scales: Annotated[NDArray[numpy.float32], dict(shape=(4, 32), order='C', device='cpu', writable=False)], shortcut: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)] | None = None, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')] | None = None, codes: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), device='cpu')] | None = None) -> None:
    """
    Real convolution of one output row; the rows of scales are scale, shift, left and right.
    """

def bconv_row(isa: str, image: Annotated[NDArray[numpy.uint64], dict(shape=(None, None, None), device='cpu', writable=False)], weights: Annotated[NDArray[numpy.uint64], dict(shape=(None, None, None, 32), order='C', device='cpu', writable=False)], *, stride: int, width: int, channels: int, act: str, scales: Annotated[NDArray[numpy.float32], dict(shape=(4, 32), order='C', device='cpu', writable=False)], zero_one: bool, base: Annotated[NDArray[numpy.int32], dict(shape=(None, 32), order='C', device='cpu', writable=False)], border: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], ones: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], shortcut: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)] | None = None, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')] | None = None, codes: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), device='cpu')] | None = None) -> None:
    """
    Binary convolution of one output row; the rows of scales are scale, shift, left and right.
    """

def pool_row(isa: str, is_max: bool, image: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], *, kw: int, stride: int, left: int, divisor: float, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')]) -> None:
    """One row of a max-pool or average pool."""

def sign_row(isa: str, row: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], *, at: int, codes: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), device='cpu')]) -> None:
    """Signs of a row, from bit `at` of each position on."""

def ones_row(isa: str, image: Annotated[NDArray[numpy.uint64], dict(shape=(None, None, None), device='cpu', writable=False)], *, kw: int, stride: int, columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), device='cpu')], ones: Annotated[NDArray[numpy.int32], dict(shape=(None,), device='cpu')]) -> None:
    """Ones in every window of a row."""

def pointwise_row(isa: str, row: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], *, scales: Annotated[NDArray[numpy.float32], dict(shape=(4, None), order='C', writable=False)], act: int, shortcut: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)] | None = None, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')]) -> None:
    """The epilogue alone."""

def interleave_row(isa: str, planes: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], *, out: Annotated[NDArray[numpy.float32], dict(shape=(None,), device='cpu')]) -> None:
    """Channels side by side."""

def normalise_row(isa: str, row: Annotated[NDArray[numpy.uint8], dict(shape=(None,), device='cpu', writable=False)], *, scales: Annotated[NDArray[numpy.float32], dict(shape=(2, None), order='C', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None,), device='cpu')]) -> None:
    """8-bit pixels to numbers."""

def patch_row(isa: str, pixels: Annotated[NDArray[numpy.int8], dict(shape=(None, None), device='cpu', writable=False)], *, run: int, step: int, width: int, patches: Annotated[NDArray[numpy.int8], dict(shape=(None, None), device='cpu')]) -> None:
    """Windows of a row of pixels, each in one line."""

def sliced_row(isa: str, patches: Annotated[NDArray[numpy.int8], dict(shape=(None, None), device='cpu', writable=False)], weights: Annotated[NDArray[numpy.int8], dict(shape=(None,), device='cpu', writable=False)], *, width: int, channels: int, act: int, scales: Annotated[NDArray[numpy.float32], dict(shape=(4, 32), order='C', writable=False)], offset: Annotated[NDArray[numpy.float32], dict(shape=(None, 32), order='C', writable=False)], border: Annotated[NDArray[numpy.uint8], dict(shape=(None,), device='cpu', writable=False)], shortcut: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)] | None = None, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')], codes: Annotated[NDArray[numpy.uint32], dict(shape=(None,), device='cpu')]) -> None:
    """Convolution of one row of patches in integers; isa as for bconv_rows."""

def bconv_rows(isa: str, image: Annotated[NDArray[numpy.uint64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.uint64], dict(shape=(None, None, None, 32), order='C', device='cpu', writable=False)], *, inside: Sequence[int], channels_in: int, stride: Sequence[int], first: int, last: int, width: int, channels: int, zero_one: bool, act: str, scales: Annotated[NDArray[numpy.float32], dict(shape=(4, 32), order='C', device='cpu', writable=False)], shortcut: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)] | None = None, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu')] | None = None, codes: Annotated[NDArray[numpy.uint32], dict(shape=(None, None, None), device='cpu')] | None = None) -> None:
    """
    Binary convolution of some output rows with tiles; isa may be amx_emulated where there is avx512.
    """

def trap_tiles() -> bool:
    """
    Lets the kernels of amx run here, on a CPU without AMX by decoding every tile instruction; False if they cannot.
    """

def tile_product(isa: str, kind: str, a: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], c: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """c += a b on the bytes of three tiles; kind is i8, u8i8 or bf16."""
