"""Arrays as kernels want them."""

import numpy as np


def aligned(array: np.ndarray) -> np.ndarray:
    """The same values at an address that is a multiple of 64."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    view = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view
