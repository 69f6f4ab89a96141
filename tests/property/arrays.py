"""Arrays as kernels want them, and weights as one array."""

import numpy as np
import torch


def aligned(array: np.ndarray) -> np.ndarray:
    """The same values at an address that is a multiple of 64."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    view = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def dense_weight(conv) -> torch.Tensor:
    """What a BConv multiplies with as one (out, in, kh, kw) tensor, zero outside the groups' blocks."""
    weights = [conv.signs(conv.proxies(part)) for part in conv.parts]
    dense = weights[0].new_zeros(conv.out_channels, conv.in_channels, *conv.kernel_size)
    for part, weight in zip(conv.parts, weights, strict=True):
        outputs, inputs = weight.shape[0] // part.groups, weight.shape[1]
        for group in range(part.groups):
            rows = part.outputs.start + group * outputs
            columns = part.inputs.start + group * inputs
            block = weight[group * outputs : (group + 1) * outputs]
            dense[rows : rows + outputs, columns : columns + inputs] = block
    return dense
