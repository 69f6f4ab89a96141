"""The native core as operators that PyTorch knows. The only Python that hands addresses to it."""

from ftbnn.nn.native.block import Block
from ftbnn.nn.native.core import release_memory, require
from ftbnn.nn.native.norm import bend, normalise
from ftbnn.nn.native.pool import average
from ftbnn.nn.native.repeat import repeat
from ftbnn.nn.native.stairs import Passes, can_climb, stairs
from ftbnn.nn.native.stem import stem

__all__ = [
    "Block",
    "Passes",
    "average",
    "bend",
    "can_climb",
    "normalise",
    "release_memory",
    "repeat",
    "require",
    "stairs",
    "stem",
]
