"""Binary weights to bits: for each output channel, for each tap, one bit per input channel of its group."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def pack(parts: Sequence[NDArray[np.bool_]]) -> bytes:
    """The bit stream of docs/format.md, of arrays (out, in of group, kh, kw) that are True where a weight is +1.

    Uneven groups come as two arrays, the last group on its own: an output channel then has other input channels, and
    the stream simply goes on.
    """
    stream = np.concatenate([part.transpose(0, 2, 3, 1).ravel() for part in parts])
    return np.packbits(stream, bitorder="little").tobytes()
