"""The layers of binary networks. The only home of straight-through gradients."""

from ftbnn.nn.backend import Backend, backend, use_backend
from ftbnn.nn.bconv import BConv
from ftbnn.nn.binarizer import Binarizer, set_mode
from ftbnn.nn.blocks import BasicBlock, Bridge, DuplicateReduction, ProjectionReduction
from ftbnn.nn.fprelu import FPReLU
from ftbnn.nn.layer import Layer, set_progress
from ftbnn.nn.method import Act, Method, activation
from ftbnn.nn.methods import METHODS, method_named
from ftbnn.nn.rounded import RoundedConv2d
from ftbnn.nn.rules import Polynomial, Rule, Tanh, Window
from ftbnn.nn.sign import Sign, sign
from ftbnn.nn.signs import MeanScaledSigns, Signs
from ftbnn.nn.stems import PlainStem, PurifiedStem, StemName, first_conv, stem_for

__all__ = [
    "METHODS",
    "Act",
    "BConv",
    "Backend",
    "BasicBlock",
    "Binarizer",
    "Bridge",
    "DuplicateReduction",
    "FPReLU",
    "Layer",
    "MeanScaledSigns",
    "Method",
    "PlainStem",
    "Polynomial",
    "ProjectionReduction",
    "PurifiedStem",
    "RoundedConv2d",
    "Rule",
    "Sign",
    "Signs",
    "StemName",
    "Tanh",
    "Window",
    "activation",
    "backend",
    "first_conv",
    "method_named",
    "set_mode",
    "set_progress",
    "sign",
    "stem_for",
    "use_backend",
]
