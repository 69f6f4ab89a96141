"""Which code trains the binary blocks: PyTorch's operators, or the native core's."""

from torch import nn

from ftbnn.nn.bconv import Backend, BConv


def set_backend(module: nn.Module, backend: Backend) -> None:
    """Sets every BConv inside `module`; a block runs natively if its BConv says so and the native core can do it."""
    for child in module.modules():
        if isinstance(child, BConv):
            child.backend = backend
            if backend == "native":  # reads proxies as they lie: channels-last ones would be copied at every step
                for part in child.parts:
                    weight = child.proxies(part)
                    weight.data = weight.data.contiguous()
