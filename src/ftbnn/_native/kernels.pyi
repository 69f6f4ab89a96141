"""
One row of each kernel, for tests; native/kernels/conv_row.h is the contract.
"""

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
