"""Binarization methods by name: one row each over the pieces of nn, or one file where those do not suffice.

`docs/methods.md` says where a row differs from its paper: a method brings its layers, a network keeps its shape.
"""

import re
from collections.abc import Callable
from functools import partial

from ftbnn.errors import UserError, unknown, wrong_kind
from ftbnn.nn.levels import half_wave
from ftbnn.nn.method import Method, Shape
from ftbnn.nn.methods.abcnet import bases
from ftbnn.nn.methods.adabin import ADABIN
from ftbnn.nn.methods.alq import ALQ
from ftbnn.nn.methods.binaryduo import BINARYDUO, decouple
from ftbnn.nn.methods.cbcn import CBCN
from ftbnn.nn.methods.cibcnn import interacting
from ftbnn.nn.methods.groupnet import branches
from ftbnn.nn.methods.lqnet import LQNET
from ftbnn.nn.methods.proxybnn import PROXYBNN
from ftbnn.nn.methods.rbnn import RBNN
from ftbnn.nn.methods.reactnet import REACTNET
from ftbnn.nn.methods.rq import RQ
from ftbnn.nn.methods.syq import SYQ
from ftbnn.nn.methods.ttq import TTQ
from ftbnn.nn.rules import EDE, NO_RULE, GrowingFourier, Polynomial, Rule, Window
from ftbnn.nn.scales import ChannelScale, Gate, InputScale, MapScale
from ftbnn.nn.sign import ImageStatistics, Sign
from ftbnn.nn.signs import MeanScaledSigns, Signs
from ftbnn.nn.transforms import (
    AboveMedian,
    Revived,
    Standardised,
    centred,
    clamped,
    clipped,
    filter_mean,
    power_of_two,
)
from ftbnn.own import find, is_own


def _signs(rule: Rule, image: ImageStatistics = "none") -> Callable[[int, bool], Sign]:
    return lambda _, follows_relu: Sign(zero_one=follows_relu, rule=rule, image=image)


def _learned(shape: Shape) -> ChannelScale:
    """In front of a BatchNorm, where its first value says nothing."""
    return ChannelScale(shape.out_channels)


def _small(kind: type[ChannelScale], shape: Shape) -> ChannelScale:
    """Without a BatchNorm behind it: sums of fan_in signs leave with a variance of 1."""
    return kind(shape.out_channels, shape.fan_in**-0.5)


def _input_scale(shape: Shape) -> InputScale:
    return InputScale(shape.in_channels, shape.kernel, shape.stride)


_ONE = Window(1.0)
_XNOR = partial(Signs, _ONE, magnitude=filter_mean, multiplier="function", projection=centred)
_BOUNDED = partial(Signs, _ONE, projection=clamped)

__all__ = ["METHODS", "decouple", "method_named"]

METHODS: dict[str, Method] = {
    "ftbnn": Method(
        "no scale, ReLU at stage ends, FPReLU elsewhere",
        act="fprelu",
        stage_end_act="relu",
        published="ImageNet R18 60.2, 63.2 multi-step with a teacher (the paper)",
    ),
    "scaled": Method(
        "Bi-Real Net as the FTBNN paper ran it: mean magnitudes, its window, no non-linear modules",
        signs=MeanScaledSigns,
        published="ImageNet R18 52.3 (the FTBNN paper, table 3)",
    ),
    "bnn": Method(
        "BNN: signs alone, weights kept in [-1, 1], Hardtanh",
        input=_signs(_ONE),
        signs=partial(Signs, NO_RULE, projection=clamped),
        act="hardtanh",
        published="ImageNet R18 42.2 (by later papers); CIFAR-10 VGG-small 89.9 (quoted by FDA-BNN)",
        doubt="the authors ran no ResNet-18; their rates per layer are left out",
    ),
    "xnor": Method(
        "XNOR-Net without K: mean magnitudes that learn too, weights centred after each step",
        input=_signs(_ONE),
        signs=_XNOR,
        order="BCA+",
        act="relu",
        published="ImageNet R18 51.2 (paper); CIFAR-10 VGG-small 89.8, R20 85.2 (quoted by FDA-BNN)",
        doubt="the recipe of the ResNet-18 is not public; a ReLU behind the convolution is the authors' option",
    ),
    "xnor-k": Method(
        "XNOR-Net with K: each position scaled by the mean magnitude of what it reads",
        input=_signs(_ONE),
        signs=_XNOR,
        scale=_input_scale,
        order="BCA+",
        act="relu",
        special="the authors' own release leaves K out",
        deploys="a box filter and a map per image",
        published="ImageNet R18 51.2 (paper)",
        doubt="as xnor",
    ),
    "xnorpp": Method(
        "XNOR-Net++, case 1: a learned scale per channel",
        input=_signs(_ONE),
        signs=_BOUNDED,
        scale=partial(_small, ChannelScale),
        order="BCA+",
        act="prelu",
        published="ImageNet R18 55.7 (a re-run of case 1)",
        doubt="first scales, rates and ReLU or PReLU are not in the paper",
    ),
    "xnorpp-4": Method(
        "XNOR-Net++, case 4 (the published one): a learned scale per channel, row and column",
        input=_signs(_ONE),
        signs=_BOUNDED,
        scale=partial(_small, MapScale),
        order="BCA+",
        act="prelu",
        has_size=True,
        special="works at one image size",
        deploys="a constant map per convolution",
        published="ImageNet R18 57.1 (paper), 56.9 (a re-run)",
        doubt="as xnorpp",
    ),
    "bireal": Method(
        "Bi-Real Net: mean magnitudes, a polynomial's gradient, no non-linear modules",
        input=_signs(Polynomial()),
        signs=partial(Signs, _ONE, magnitude=filter_mean, multiplier="none"),
        published="ImageNet R18 56.4, R34 62.2 (paper)",
    ),
    "irnet": Method(
        "IR-Net: standardised weights, powers of two, a gradient that sharpens",
        input=_signs(EDE()),
        signs=partial(Signs, EDE(), transform=Standardised(), magnitude=power_of_two),
        act="hardtanh",
        stem_act="hardtanh",
        published="ImageNet R18 58.1; CIFAR-10 R20 86.5, R18 91.5, VGG-small 90.4 (paper)",
    ),
    "real-to-bin": Method(
        "Real-to-Binary's strong baseline: BatchNorm first, learned maps of scales, PReLU before the shortcut",
        input=_signs(_ONE),
        signs=_BOUNDED,
        scale=partial(_small, MapScale),
        order="BCA+",
        act="prelu",
        stem_act="prelu",
        has_size=True,
        special="works at one image size",
        deploys="a constant map per convolution",
        published="ImageNet R18 60.9 (paper, two steps and a teacher)",
        doubt="loss weights and first scales are re-implementations'",
    ),
    "real-to-bin-gated": Method(
        "Real-to-Binary: each image scales its channels by a gate of the real-valued input",
        input=_signs(_ONE),
        signs=_BOUNDED,
        scale=lambda shape: Gate(shape.in_channels, shape.out_channels, size=2 * shape.fan_in**-0.5),
        order="BCA+",
        act="prelu",
        stem_act="prelu",
        deploys="two small matrices and a gate per convolution",
        published="ImageNet R18 65.4 (paper, four steps)",
        doubt="as real-to-bin; without the paper's attention loss the gate alone is said not to help",
    ),
    "reactnet": REACTNET,
    "recu": Method(
        "ReCU: weights far out are clamped back to where they can turn",
        input=_signs(Polynomial(), "deviation"),
        signs=partial(Signs, NO_RULE, transform=Revived()),
        scale=_learned,
        act="hardtanh",
        stem_act="hardtanh",
        published="ImageNet R18 61.0; CIFAR-10 R18 92.8, R20 87.5, VGG-small 92.2 (paper)",
    ),
    "adabin": ADABIN,
    "rbnn": RBNN,
    "siman": Method(
        "SiMaN: bits say large or small, not the sign; inputs are centred image by image",
        input=_signs(Polynomial(), "mean"),
        signs=partial(Signs, NO_RULE, transform=AboveMedian(), projection=clipped),
        scale=_learned,
        act="hardtanh",
        stem_act="hardtanh",
        deploys="a threshold per image and convolution: its mean",
        published="ImageNet R18 60.1; CIFAR-10 R18 92.5, R20 87.4, VGG-small 92.5 (paper)",
    ),
    "fda": Method(
        "FDA-BNN's gradient: the first sines of a square wave, more of them later",
        input=_signs(GrowingFourier()),
        signs=partial(Signs, GrowingFourier(), magnitude=filter_mean),
        act="prelu",
        published="ImageNet R18 60.2; CIFAR-10 R20 86.2, VGG-small 92.5 (paper)",
        doubt="its noise module, which only training sees, is left out (R20 85.8 without it, the paper says)",
    ),
    "bonn": Method(
        "BONN's block: one learned scale per layer, BatchNorm first, PReLU behind the shortcut",
        input=_signs(Polynomial()),
        signs=partial(Signs, _ONE),
        scale=lambda shape: ChannelScale(1, shape.fan_in**-0.5),
        order="BC+A",
        act="prelu",
        stem_act="prelu",
        published="ImageNet R18 59.3 (paper)",
        doubt="its Bayesian loss is left out: two of its constants are not public",
    ),
    "proxy-like": PROXYBNN,
    "binaryduo": BINARYDUO,
    "ci-bcnn": interacting(),
    "bop": Method(
        "Bop: binary weights without real-valued ones, which turn when their gradient's mean asks for it",
        input=_signs(_ONE),
        signs=partial(Signs, NO_RULE),
        recipe={"optimizer": "bop"},
        special="an optimizer: it goes with every method that has plain signs",
        published="ImageNet R18, Bi-Real Net's shape, 56.6; CIFAR-10 VGG 91.3 (paper)",
    ),
    "bwn": Method(
        "BWN: XNOR-Net's weights on real-valued inputs",
        input=None,
        signs=_XNOR,
        act="relu",
        stem_act="relu",
        bits=(1, 32),
        deploys="8 bits a weight; products are real-valued work",
        published="ImageNet R18 60.8 (paper)",
    ),
    "ttq": TTQ,
    "hwgq": Method(
        "HWGQ: inputs of four levels, half-wave Gaussian",
        input=lambda _, __: half_wave(),
        signs=partial(Signs, NO_RULE, magnitude=filter_mean),
        order="BCA+",
        bits=(1, 2),
        deploys="three binary convolutions, one for each step of the levels",
        published="ImageNet R18 59.6 (paper); CIFAR-10 VGG-small 92.5 (not certain)",
        doubt="published blocks normalise again behind the convolution",
    ),
    "lq-net": LQNET,
    "syq": SYQ,
    "alq-like": ALQ,
    "rq-like": RQ,
    "abc": bases(3, 3),
    "group-net": branches(4),
    "cbcn": CBCN,
}
# Rows with numbers: NAME(M,N).
_NUMBERED: dict[str, Callable[..., Method]] = {"abc": bases, "group-net": branches}
_COUNTS = {"abc": 2, "group-net": 1}


def method_named(name: str | Method) -> Method:
    """The row of that name, which may have numbers, as abc(5,3), or a file; a Method of one's own as it is, or by
    FILE.py:METHOD."""
    if isinstance(name, Method):
        return name
    if not isinstance(name, str):
        raise wrong_kind("a method is a name or an ftbnn.nn.Method", name)
    if (match := re.fullmatch(r"ci-bcnn\((.+)\)", name)) is not None:
        return interacting(match[1])
    if (match := re.fullmatch(r"([a-z-]+)\(([\d, ]+)\)", name)) and match[1] in _NUMBERED:
        numbers = [int(number) for number in match[2].split(",") if number.strip()]
        if len(numbers) != _COUNTS[match[1]]:
            example = ",".join("3" * _COUNTS[match[1]])
            raise UserError(f"{match[1]} takes {_COUNTS[match[1]]} numbers, as {match[1]}({example})")
        return _NUMBERED[match[1]](*numbers)
    if is_own(name):
        return find(name, "method", lambda it: isinstance(it, Method))  # type: ignore[no-any-return]
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
