"""Which parts of a network are binary: the switch that multi-step training turns."""

from torch import nn

from ftbnn.nn.bconv import BConv, WeightMode
from ftbnn.nn.sign import ActivationMode, Sign


def set_mode(module: nn.Module, *, activations: ActivationMode = "sign", weights: WeightMode = "binary") -> None:
    """Sets every Sign and BConv inside `module`: step 0 is tanh/real, step 1 sign/real, step 2 sign/binary."""
    for child in module.modules():
        if isinstance(child, Sign):
            child.mode = activations
        elif isinstance(child, BConv):
            child.mode = weights
