"""The layers of binary networks. The only home of straight-through gradients."""

from ftbnn.nn.backend import Backend, backend, use_backend
from ftbnn.nn.bconv import BConv
from ftbnn.nn.binarizer import Binarizer, set_mode
from ftbnn.nn.blocks import BasicBlock, Bridge, DuplicateReduction, ProjectionReduction
from ftbnn.nn.convert import Binarized, binarize
from ftbnn.nn.ensemble import Ensemble
from ftbnn.nn.fprelu import FPReLU
from ftbnn.nn.layer import Layer, after_step, set_progress
from ftbnn.nn.levels import Levels
from ftbnn.nn.method import Act, Method, Shape, activation
from ftbnn.nn.methods import METHODS, decouple, method_named
from ftbnn.nn.rounded import RoundedConv2d
from ftbnn.nn.rules import EDE, Fourier, Polynomial, Rule, Tanh, Wedge, Window
from ftbnn.nn.scales import ChannelScale, Gate, InputScale, MapScale, settle
from ftbnn.nn.sign import Sign, sign
from ftbnn.nn.signs import MeanScaledSigns, Signs
from ftbnn.nn.stems import PlainStem, PurifiedStem, StemName, first_conv, stem_for
from ftbnn.nn.transforms import Revived, Standardised, Transform

__all__ = [
    "EDE",
    "METHODS",
    "Act",
    "BConv",
    "Backend",
    "BasicBlock",
    "Binarized",
    "Binarizer",
    "Bridge",
    "ChannelScale",
    "DuplicateReduction",
    "Ensemble",
    "FPReLU",
    "Fourier",
    "Gate",
    "InputScale",
    "Layer",
    "Levels",
    "MapScale",
    "MeanScaledSigns",
    "Method",
    "PlainStem",
    "Polynomial",
    "ProjectionReduction",
    "PurifiedStem",
    "Revived",
    "RoundedConv2d",
    "Rule",
    "Shape",
    "Sign",
    "Signs",
    "Standardised",
    "StemName",
    "Tanh",
    "Transform",
    "Wedge",
    "Window",
    "activation",
    "after_step",
    "backend",
    "binarize",
    "decouple",
    "first_conv",
    "method_named",
    "set_mode",
    "set_progress",
    "settle",
    "sign",
    "stem_for",
    "use_backend",
]
