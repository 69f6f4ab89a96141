"""What every data source is: two splits and the facts a network must know about them."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from ftbnn.errors import UserError


@dataclass(frozen=True)
class Spec:
    """The facts: shape, classes, and the mean and deviation per channel on the scale 0 to 1."""

    name: str
    classes: int
    channels: int
    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    class_names: tuple[str, ...]
    augment: str = "none"  # what training does to an image unless the recipe says otherwise


class CorruptImage(Exception):
    """An image file that cannot be decoded; its text is the path and the reason."""


@dataclass(frozen=True)
class ArraySplit:
    """A split that lives in memory: uint8 images (N, C, H, W) and int64 labels (N)."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@runtime_checkable
class FileSplit(Protocol):
    """A split that is decoded image by image."""

    def __len__(self) -> int: ...

    def image(self, index: int, seed: int | None) -> Tensor:
        """uint8 (C, size, size): augmented by this seed, or the plain test view for None. May raise CorruptImage."""

    def label(self, index: int) -> int: ...

    def path(self, index: int) -> str: ...


@dataclass(frozen=True)
class Source:
    """A data set ready for use."""

    spec: Spec
    train: "ArraySplit | FileSplit"
    val: "ArraySplit | FileSplit"

    def __post_init__(self) -> None:
        if not len(self.train) or not len(self.val):
            raise UserError(f"data set {self.spec.name} has {len(self.train)} training and {len(self.val)} test images")
