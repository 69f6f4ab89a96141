"""Which code trains the blocks and stems: PyTorch's operators, or the native core's."""

from torch import nn

from ftbnn.nn.bconv import Backend, BConv
from ftbnn.nn.stems import PlainStem, PurifiedStem


def set_backend(module: nn.Module, backend: Backend) -> None:
    """Sets every BConv and stem inside `module`; what stands around a BConv goes by it.

    Blocks, stems and shortcuts run natively as far as the native core can do them. `native8` rounds what the gradients
    of binary convolutions are made of to 8 bits: faster where the CPU multiplies bytes (docs/decisions/0008).
    """
    for child in module.modules():
        if isinstance(child, BConv | PlainStem | PurifiedStem):
            child.backend = backend
        if isinstance(child, BConv) and backend != "torch":
            for part in child.parts:  # read as they lie: channels-last ones would be copied at every step
                weight = child.proxies(part)
                weight.data = weight.data.contiguous()
