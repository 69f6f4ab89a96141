"""The paper's layers. The only home of straight-through gradients."""

from ftbnn.nn.backend import set_backend
from ftbnn.nn.bconv import Backend, BConv, ScaledBConv
from ftbnn.nn.blocks import (
    ActName,
    BasicBlock,
    Bridge,
    DuplicateReduction,
    ProjectionReduction,
    activation,
)
from ftbnn.nn.fprelu import FPReLU
from ftbnn.nn.mode import set_mode
from ftbnn.nn.sign import Sign, sign
from ftbnn.nn.stems import PlainStem, PurifiedStem, StemName, stem_for

__all__ = [
    "ActName",
    "BConv",
    "Backend",
    "BasicBlock",
    "Bridge",
    "DuplicateReduction",
    "FPReLU",
    "PlainStem",
    "ProjectionReduction",
    "PurifiedStem",
    "ScaledBConv",
    "Sign",
    "StemName",
    "activation",
    "set_backend",
    "set_mode",
    "sign",
    "stem_for",
]
