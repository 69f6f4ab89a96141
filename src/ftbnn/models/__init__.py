"""The paper's networks and the ones it is compared with, by name or by parameters."""

from ftbnn.models.baseline import FTBNN
from ftbnn.models.derived import DerivedFTBNN
from ftbnn.models.registry import REGISTRY, Entry, build, find
from ftbnn.models.resnet import ResNet
from ftbnn.models.toy import ToyNet
from ftbnn.nn.method import Method
from ftbnn.nn.methods import METHODS, method_named

__all__ = [
    "FTBNN",
    "METHODS",
    "REGISTRY",
    "DerivedFTBNN",
    "Entry",
    "Method",
    "ResNet",
    "ToyNet",
    "build",
    "find",
    "method_named",
]
