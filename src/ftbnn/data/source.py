"""What every data source is: its splits, and the facts a network must know about their images."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from ftbnn.errors import UserError

HOLD_OUT_SEED = 20201019  # which images are held out for validation is part of the data, not of a run
MOST_HELD_OUT = 5000


@dataclass(frozen=True)
class Spec:
    """The facts: shape, classes, mean and deviation per channel on the scale 0 to 1, and how a photo is cut.

    They travel from the data to the run and from there into the file, so that a photo is prepared the same everywhere:
    its shorter side becomes `resize` pixels, its centre is cut out, and pixels enter as (x / 255 - mean) / std.
    """

    name: str
    classes: int
    channels: int
    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    class_names: tuple[str, ...]
    augment: str = "none"  # what training does to an image unless the recipe says otherwise
    resize: int = 0  # 0: the image's size

    def __post_init__(self) -> None:
        if not self.resize:
            object.__setattr__(self, "resize", self.image_size)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Spec":
        """As a run has kept them; runs before specs knew `resize` cut photos of ImageNet's kind from 256/224 of it."""
        known: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()
        }
        if "resize" not in known and known.get("augment") == "imagenet":
            known["resize"] = test_side(known["image_size"])
        return cls(**{key: value for key, value in known.items() if key in cls.__dataclass_fields__})


def test_side(image_size: int) -> int:
    """To what a photo's shorter side is resized before its centre is cut out: 256 for 224, others in proportion."""
    return round(image_size * 256 / 224)


def listed(names: Sequence[str]) -> str:
    """The first of many names, for a line."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def check_classes(what: str, classes: Sequence[str], labels: Mapping[Path, Sequence[int]]) -> None:
    """`labels`: of what lies in each folder, the training one first. A class that nothing teaches is a mistake; that
    another split lacks one is only said."""
    for number, (folder, found) in enumerate(labels.items()):
        present = set(found)
        if missing := [name for label, name in enumerate(classes) if label not in present]:
            said = f"{folder} has no {what} of {listed(missing)}"
            if number == 0:
                raise UserError(f"{said}: add some, or remove the class's folder")
            warnings.warn(f"{said}: no score tells of them", stacklevel=2)


class CorruptImage(Exception):
    """An image file that cannot be decoded; its text is the path and the reason."""


@dataclass(frozen=True)
class ArraySplit:
    """A split that lives in memory: uint8 images (N, C, H, W) and int64 labels (N)."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, indices: Tensor) -> "ArraySplit":
        return ArraySplit(self.images[indices], self.labels[indices])


Self = TypeVar("Self", bound="FileSplit")


@runtime_checkable
class FileSplit(Protocol):
    """A split that is decoded image by image."""

    def __len__(self) -> int: ...

    def image(self, index: int, seed: int | None) -> Tensor:
        """uint8 (C, size, size): augmented by this seed, or the plain test view for None. May raise CorruptImage."""

    def label(self, index: int) -> int: ...

    def path(self, index: int) -> str: ...

    def part(self: Self, indices: Tensor) -> Self: ...


class UserSplit(Protocol):
    """A user's own data set: anything with a length and items (image tensor, label)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Split = ArraySplit | FileSplit | UserSplit


@dataclass(frozen=True)
class Source:
    """A data set ready for use. `val` chooses between epochs, `test` is looked at once; where there is no `val`, part
    of the training images is held out for it. A user's own data sets have no spec."""

    spec: Spec | None
    train: Split
    test: Split | None = None
    val: Split | None = None

    def __post_init__(self) -> None:
        for what, split in (("training", self.train), ("validation", self.val), ("test", self.test)):
            if split is not None and not len(split):
                raise UserError(f"{self.name} has no {what} images")

    @property
    def name(self) -> str:
        return self.spec.name if self.spec is not None else type(self.train).__name__

    def with_validation(self, share: float) -> "Source":
        """With a validation split: its own, or this share of the training images, MOST_HELD_OUT at the most.

        A DataLoader cannot be asked for single images: nothing of it is held out.
        """
        has_images = isinstance(self.train, ArraySplit | FileSplit) or hasattr(self.train, "__getitem__")
        if self.val is not None or share == 0 or not has_images:
            return self
        size = len(self.train)
        count = min(round(share * size), MOST_HELD_OUT)
        if not 0 < count < size:
            return self
        order = torch.randperm(size, generator=torch.Generator().manual_seed(HOLD_OUT_SEED))
        held, rest = order[:count].sort().values, order[count:].sort().values
        return replace(self, train=_part(self.train, rest), val=_part(self.train, held))


def _part(split: Split, indices: Tensor) -> Split:
    if isinstance(split, ArraySplit | FileSplit):
        return split.part(indices)
    return UserPart(split, indices.tolist())


@dataclass(frozen=True)
class UserPart:
    """Some items of a user's data set; `indices` are the user's own numbers of them."""

    whole: UserSplit
    indices: list[int]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.whole[self.indices[index]]
