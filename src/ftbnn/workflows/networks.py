"""Networks by name: built, with the weights of the zoo if wanted, counted, and as wide as a budget allows."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from ftbnn import zoo
from ftbnn.budget import PAPER, Budget, Convention, Design, ImageTooSmall, count, widest
from ftbnn.errors import UserError
from ftbnn.models import DerivedFTBNN, find
from ftbnn.models import build as build_fresh
from ftbnn.models.derived import BLOCKS
from ftbnn.models.own import load_own, parameters_of
from ftbnn.models.skeleton import skeleton
from ftbnn.nn import StemName, method_named, stem_for
from ftbnn.own import is_own
from ftbnn.packing.read import read_graph
from ftbnn.packing.restore import restore
from ftbnn.packing.write import MAX_CHANNELS

LARGEST_HINT = 128  # how far to look for an image size that works, to name it in an error


def build(name: str, *, pretrained: str | None = None, images: Iterable[Tensor] = (), **settings: Any) -> nn.Module:
    """The network of that name, freshly initialised, or with the weights of a network of the zoo.

    `settings` are classes, in_channels, stem, stem_bits, width, method and, for methods of one image size,
    image_size; what is not given is the network's own
    default, or what the zoo's has. A classifier of another number of classes stays fresh. Training on needs statistics
    that a file has not: `fit` takes them from its first images, a loop of your own hands over `images`, some batches.
    """
    if pretrained is None:
        return load_own(name, **settings) if is_own(name) else build_fresh(name, **settings)
    zoo_name = zoo.name_in(pretrained) or pretrained
    card = zoo.card(zoo_name)
    if card["model"] != name:
        raise UserError(f"zoo:{zoo_name} is a {card['model']}, not a {name}")
    channels, side, _ = card["input"]
    own = {"classes": len(card["classes"]), "in_channels": channels, "width": card["width"], "stem": stem_for(side)}
    own |= {"stem_bits": card.get("stem_bits")}
    network = build_fresh(name, **(own | {key: value for key, value in settings.items() if value is not None}))
    restore(network, read_graph(zoo.resolve(f"{zoo.PREFIX}{zoo_name}")), f"zoo:{zoo_name}", images)
    return network


def check_positive(**sizes: int | None) -> None:
    for name, value in sizes.items():
        if value is not None and value < 1:
            raise UserError(f"{name.replace('_', ' ')} must be 1 or more, not {value}")


def _smallest_image(module: nn.Module, channels: int, above: int) -> int | None:
    for image_size in range(above + 1, LARGEST_HINT + 1):
        try:
            count(module, (channels, image_size, image_size))
        except UserError:
            continue
        return image_size
    return None


def _count(module: nn.Module, channels: int, image_size: int, rule: Convention) -> Budget:
    try:
        return count(module, (channels, image_size, image_size), rule=rule)
    except ImageTooSmall as error:
        enough = _smallest_image(module, channels, image_size)
        advice = f"; the smallest image size that works is {enough}" if enough else ""
        raise ImageTooSmall(f"{error}{advice}") from error


def count_named(
    model: str,
    *,
    image_size: int | None = None,
    classes: int | None = None,
    in_channels: int | None = None,
    stem: StemName | None = None,
    stem_bits: int | None = None,
    width: int | None = None,
    method: str | None = None,
    rule: Convention = PAPER,
) -> Budget:
    """The budget of a network of the registry, or of one's own (`FILE.py:FACTORY`). None means the model's default."""
    check_positive(image_size=image_size, classes=classes, in_channels=in_channels, width=width)
    settings: dict[str, Any] = {
        "classes": classes,
        "in_channels": in_channels,
        "stem": stem,
        "stem_bits": stem_bits,
        "width": width,
        "method": method,
    }
    if method is not None and method_named(method).has_size and not is_own(model):
        settings["image_size"] = image_size or find(model).image_size
    if is_own(model):
        parameters_of(model)  # executes the file, whose own tensors shall have numbers
    with skeleton():
        if is_own(model):
            return _count(load_own(model, **settings), in_channels or 3, image_size or 224, rule)
        entry = find(model)
        module = build_fresh(model, **settings)
    return _count(module, in_channels or entry.in_channels, image_size or entry.image_size, rule)


def design(
    *,
    layers: int,
    groups: int,
    limit: float,
    image_size: int = 224,
    classes: int = 1000,
    in_channels: int = 3,
    stem: StemName = "imagenet",
    stem_bits: int | None = None,
    rule: Convention = PAPER,
) -> tuple[Design, list[Design]]:
    """The widest derived network that costs at most `limit`, and its neighbours."""
    check_positive(layers=layers, groups=groups, image_size=image_size, classes=classes, in_channels=in_channels)

    def at(v: int) -> nn.Module:
        with skeleton():
            return DerivedFTBNN(
                layers=layers,
                groups=groups,
                v=v,
                classes=classes,
                in_channels=in_channels,
                stem=stem,
                stem_bits=stem_bits,
            )

    narrowest = -(-groups // 2)  # the first stage has 2v channels, at least one for each group
    _count(at(narrowest), in_channels, image_size, rule)
    largest = MAX_CHANNELS // 2 ** len(BLOCKS[layers])  # each stage doubles the channels
    shape = (in_channels, image_size, image_size)
    return widest(at, shape, limit, smallest=narrowest, largest=largest, rule=rule)
