"""Which code trains the blocks and stems: PyTorch's operators, or the native core's."""

from torch import nn

from ftbnn.nn.bconv import Backend, BConv
from ftbnn.nn.stems import PlainStem, PurifiedStem


def set_backend(module: nn.Module, backend: Backend) -> None:
    """Sets every BConv and stem inside `module`; what stands around a BConv goes by it.

    Blocks, stems and shortcuts run natively as far as the native core can do them.
    """
    for child in module.modules():
        if isinstance(child, BConv | PlainStem | PurifiedStem):
            child.backend = backend
        if isinstance(child, BConv) and backend == "native":
            for part in child.parts:  # read as they lie: channels-last ones would be copied at every step
                weight = child.proxies(part)
                weight.data = weight.data.contiguous()
