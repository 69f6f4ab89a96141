"""Every network by name. `build` takes a name of REGISTRY, or `ftbnn-dDEPTH-gGROUPS-vWIDTH` for any derived one."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from ftbnn.errors import UserError, unknown
from ftbnn.models.baseline import FTBNN
from ftbnn.models.binary_mobilenet import BinaryMobileNet
from ftbnn.models.bnext import BNext
from ftbnn.models.derived import DerivedFTBNN
from ftbnn.models.meliusnet import MeliusNet
from ftbnn.models.reactnet_a import ReActNetA
from ftbnn.models.resnet import ResNet
from ftbnn.models.resnet20 import ResNet20
from ftbnn.models.toy import ToyNet
from ftbnn.models.vgg import VGGSmall
from ftbnn.nn import Method, StemName, method_named, settle


@dataclass(frozen=True)
class Entry:
    """A buildable network: what makes it, what it is, and the images it is meant for."""

    builder: Callable[..., nn.Module]
    about: str
    image_size: int = 224
    in_channels: int = 3
    classes: int = 1000
    has_stems: bool = True
    has_width: bool = True  # False where the width, v, is in the name
    has_methods: bool = True  # whether it can be made binary in other ways
    binary: Callable[..., nn.Module] | None = None  # of a real-valued one: what a method is applied to
    recipe: str = "naive"  # the family of recipes it is trained with where none is asked for
    published: str = ""  # of one that comes with a method: top-1 with its source
    deploys: str = ""  # what its file needs
    doubt: str = ""  # what is not certain


def _derived(layers: int, groups: int, v: int) -> Entry:
    about = f"derived, {layers} layers, {groups} group{'s' if groups > 1 else ''}, v = {v}"
    return Entry(partial(DerivedFTBNN, layers=layers, groups=groups, v=v), about, has_width=False)


def _toy(about: str, builder: Callable[..., nn.Module]) -> Entry:
    return Entry(builder, about, image_size=28, in_channels=1, classes=10, has_stems=False, has_methods=False)


def _real(layers: int) -> Entry:
    about = f"real-valued ResNet-{layers}, torchvision's parameter names"
    # Literature's binary ResNet-18: a shortcut around each convolution, an average pool in those that reduce.
    return Entry(partial(ResNet, layers=layers), about, binary=partial(FTBNN, layers=layers), recipe="teacher")


def _melius(layers: int, about: str, top1: float) -> Entry:
    return Entry(
        partial(MeliusNet, layers=layers),
        f"MeliusNet-{layers}: {about}",
        has_methods=False,
        published=f"ImageNet {top1} (the authors' code)",
        deploys="concatenations; thresholds for the BatchNorms",
        doubt="the authors pad with -1 before a binary convolution, here padding is 0",
    )


REGISTRY: dict[str, Entry] = {
    # The baseline and the ablation variants of table 3.
    "ftbnn18": Entry(partial(FTBNN, layers=18), "baseline: ReLU at stage ends, FPReLU elsewhere"),
    "ftbnn34": Entry(partial(FTBNN, layers=34), "the baseline with ResNet-34's blocks"),
    "ftbnn18-none": Entry(
        partial(FTBNN, act="none", stage_end_act="none"),
        "ablation: no non-linear modules, scale left to BatchNorm",
    ),
    "ftbnn18-prelu": Entry(partial(FTBNN, act="prelu", stage_end_act="prelu"), "ablation: all PReLU"),
    "ftbnn18-fprelu": Entry(partial(FTBNN, act="fprelu", stage_end_act="fprelu"), "ablation: all FPReLU"),
    "ftbnn18-fprelu-quarter": Entry(
        partial(FTBNN, act="fprelu-quarter", stage_end_act="fprelu-quarter"),
        "all FPReLU, slopes of negative values start at 0.25 as PReLU's do (not in the paper)",
    ),
    "ftbnn18-relu": Entry(partial(FTBNN, act="relu", stage_end_act="relu"), "ablation: all ReLU (needs lr 0.00015)"),
    "ftbnn18-stage-relu": Entry(partial(FTBNN, act="none"), "ablation: ReLU at the four stage ends only"),
    "ftbnn18-stage-relu-prelu": Entry(partial(FTBNN, act="prelu"), "ablation: ReLU at stage ends, PReLU elsewhere"),
    # What the paper compares with.
    "bireal18": Entry(
        partial(FTBNN, layers=18, method="scaled"), "Bi-Real Net 18: scaling factors, no non-linear modules"
    ),
    "bireal34": Entry(
        partial(FTBNN, layers=34, method="scaled"), "Bi-Real Net 34: scaling factors, no non-linear modules"
    ),
    "vgg-small": Entry(
        VGGSmall, "VGG-small of the CIFAR literature, six convolutions", 32, classes=10, has_stems=False
    ),
    "resnet20": Entry(ResNet20, "ResNet-20 of the CIFAR literature, 16-32-64", 32, classes=10, has_stems=False),
    # Networks that come with a method.
    "reactnet-a": Entry(
        ReActNetA,
        "ReActNet-A: MobileNet's shape in dense binary convolutions",
        published="ImageNet 69.4 (paper), 69.5 (the authors' code, two steps and a teacher)",
        deploys="as reactnet; shortcuts of channels twice",
    ),
    "binary-mobilenet": Entry(
        BinaryMobileNet,
        "Binary MobileNet: binary convolutions of groups, as a list has them",
        published="ImageNet 60.09 (its abstract), 60.9 (the FTBNN paper)",
        deploys="as bireal; groups, shortcuts of channels twice",
        doubt="the list of groups that was found is not printed: this one is ours, and costs a fifth of the 154 M",
    ),
    "meliusnet22": _melius(22, "blocks that add channels and improve them", 63.6),
    "meliusnet29": _melius(29, "the same, deeper, with narrower transitions", 65.8),
    "bnext-t": Entry(
        BNext,
        "BNext-T: ReActNet-A's shape, a gate behind every convolution",
        has_methods=False,
        published="ImageNet 72.4 (paper, 512 epochs and two teachers)",
        deploys="gates: means, two small matrices, products",
        doubt="published as trained with more: RandAugment, two teachers, 8-bit stem and classifier",
    ),
    "resnet18": _real(18),
    "resnet34": _real(34),
    # The derived networks of table 4, left.
    "ftbnn-d18-g1-90m": _derived(18, 1, 50),
    "ftbnn-d18-g3-90m": _derived(18, 3, 78),
    "ftbnn-d18-g5-90m": _derived(18, 5, 96),
    "ftbnn-d18-g8-90m": _derived(18, 8, 116),
    "ftbnn-d34-g1-90m": _derived(34, 1, 34),
    "ftbnn-d34-g3-90m": _derived(34, 3, 54),
    "ftbnn-d34-g5-90m": _derived(34, 5, 68),
    "ftbnn-d34-g8-90m": _derived(34, 8, 82),
    "ftbnn-d18-g1-135m": _derived(18, 1, 64),
    "ftbnn-d18-g3-135m": _derived(18, 3, 99),
    "ftbnn-d18-g5-135m": _derived(18, 5, 124),
    "ftbnn-d18-g8-135m": _derived(18, 8, 152),
    "ftbnn-d34-g1-135m": _derived(34, 1, 44),
    "ftbnn-d34-g3-135m": _derived(34, 3, 70),
    "ftbnn-d34-g5-135m": _derived(34, 5, 88),
    "ftbnn-d34-g8-135m": _derived(34, 8, 108),
    "ftbnn-d44-g1-135m": _derived(44, 1, 38),
    "ftbnn-d44-g3-135m": _derived(44, 3, 61),
    "ftbnn-d44-g5-135m": _derived(44, 5, 77),
    "ftbnn-d44-g8-135m": _derived(44, 8, 94),
    # The toy networks of figure 2.
    "toy-linear": _toy("figure 2: real convolutions, no non-linearity", partial(ToyNet, act="none", real=True)),
    "toy-binary": _toy("figure 2: binary convolutions, no non-linearity", partial(ToyNet, act="none")),
    "toy-prelu": _toy("figure 2: binary convolutions, PReLU", partial(ToyNet, act="prelu")),
    "toy-relu": _toy("figure 2: binary convolutions, ReLU", partial(ToyNet, act="relu")),
}

_BY_PARAMETERS = re.compile(r"ftbnn-d(\d+)-g(\d+)-v(\d+)")


def find(name: str) -> Entry:
    """The entry of that name; raises UserError with the nearest names."""
    if name in REGISTRY:
        return REGISTRY[name]
    if match := _BY_PARAMETERS.fullmatch(name):
        return _derived(*map(int, match.groups()))
    raise unknown("model", name, REGISTRY, hint="`ftbnn models` lists all; any ftbnn-dDEPTH-gGROUPS-vWIDTH works too")


def build(
    name: str,
    *,
    classes: int | None = None,
    in_channels: int | None = None,
    stem: StemName | None = None,
    stem_bits: int | None = None,
    width: int | None = None,
    method: str | Method | None = None,
    image_size: int | None = None,
) -> nn.Module:
    """The network of that name, freshly initialised. What is not given is the entry's own default.

    `image_size` is for methods that learn for images of one size; others do not care.
    """
    entry = find(name)
    settings: dict[str, object] = {
        "classes": entry.classes if classes is None else classes,
        "in_channels": entry.in_channels if in_channels is None else in_channels,
    }
    for key, value in (("stem", stem), ("stem_bits", stem_bits)):
        if value is not None:
            if not entry.has_stems:
                raise UserError(f"{name} has one stem only")
            settings[key] = value
    if width is not None:
        if not entry.has_width:
            raise UserError(f"the width of {name} is its v; build ftbnn-dDEPTH-gGROUPS-v{width} instead")
        settings["width"] = width
    if method is not None:
        if not entry.has_methods:
            raise UserError(f"{name} is not made binary by a method of choice; ftbnn18, reactnet-a and others are")
        settings["method"] = method
    builder = entry.builder if method is None or entry.binary is None else entry.binary
    network = builder(**settings)
    if method is not None and method_named(method).has_size and image_size is not None:
        settle(network, (settings["in_channels"], image_size, image_size))  # type: ignore[arg-type]
    return network
