"""imagefolder: ImageNet's layout, DIR/train/CLASS/* and DIR/val/CLASS/*, decoded image by image."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from ftbnn.data.source import CorruptImage, Source, Spec, check_classes, listed, test_side
from ftbnn.errors import UserError
from ftbnn.photos import FORMATS, crop_box, eight_bit, orientation, turned

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff")
ENDINGS = " ".join(extension[1:] for extension in EXTENSIONS)
VAL_FOLDERS = ("val", "validation")
SIZE = 224
TRAIN_SIDES = (256, 480)  # He et al. 2015, section 3.4


@dataclass(frozen=True, eq=False)
class FolderSplit:
    """Image files with labels. The names are one block of bytes: a million strings would be copied to every worker."""

    root: str
    names: bytes
    ends: NDArray[np.int64]
    labels: NDArray[np.int64]
    size: int

    def __len__(self) -> int:
        return len(self.labels)

    def path(self, index: int) -> str:
        start = self.ends[index - 1] if index else 0
        return str(Path(self.root, os.fsdecode(self.names[start : self.ends[index]])))

    def label(self, index: int) -> int:
        return int(self.labels[index])

    def part(self, indices: Tensor) -> "FolderSplit":
        chosen = indices.numpy()
        starts = np.concatenate([[0], self.ends[:-1]])
        names = [self.names[start:end] for start, end in zip(starts[chosen], self.ends[chosen], strict=True)]
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        return FolderSplit(self.root, b"".join(names), ends, self.labels[chosen], self.size)

    def image(self, index: int, seed: int | None) -> Tensor:
        """uint8 (3, size, size): shorter side to `side`, crop, flip; only the crop is resampled."""
        if seed is None:
            side, across, down, flip = test_side(self.size), 0.5, 0.5, False
        else:
            draw = random.Random(seed)
            side = draw.randint(*(round(self.size * bound / SIZE) for bound in TRAIN_SIDES))
            across, down, flip = draw.random(), draw.random(), draw.random() < 0.5
        image, turn = decode(self.path(index), side=side)
        part = self.size / side
        box = crop_box(image.size, (part, part), across=across, down=down)
        view = image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box).convert("RGB")
        view = turned(view, turn)
        if flip:
            view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return torch.from_numpy(np.array(view)).permute(2, 0, 1).contiguous()


def decode(path: str, *, side: int) -> tuple[Image.Image, int]:
    """The pixels, grey or RGB, and the EXIF orientation that is still to be applied.

    A JPEG that is at least four times too large is decoded at 1/2, 1/4 or 1/8, as long as its shorter side keeps
    2 `side` pixels. That is exact enough: the reduced DCT averages neighbours that the resampling, whose filter still
    spans 4 or more of the remaining pixels, would have averaged anyway, only with slightly other weights.
    """
    try:
        with Image.open(path, formats=FORMATS) as file:
            if 0 in file.size:
                raise CorruptImage(f"{path}: no pixels")
            scale = 2 * side / min(file.size)
            file.draft(None, (ceil(scale * file.width), ceil(scale * file.height)))
            file.load()
            return eight_bit(file, file.format), orientation(file)
    except (CorruptImage, MemoryError):
        raise
    except Exception as error:  # Pillow's readers raise nearly anything over broken bytes
        raise CorruptImage(f"{path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image that can be read"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0]


def imagefolder(data_dir: Path, *, image_size: int = SIZE) -> Source:
    """Classes are the sorted folder names of DIR/train. With both DIR/val and DIR/test the first chooses between
    epochs; with one of them, as of ImageNet, that is the test set, and part of DIR/train is held out."""
    val_dir = next((data_dir / name for name in VAL_FOLDERS if (data_dir / name).is_dir()), None)
    test_dir = data_dir / "test" if (data_dir / "test").is_dir() else None
    if test_dir is None:
        val_dir, test_dir = None, val_dir
    if not (data_dir / "train").is_dir() or test_dir is None:
        missing = "train" if test_dir else "val (or validation, test)"
        raise UserError(f"imagefolder: no folder {missing} in {data_dir}; wanted are train/CLASS/* and val/CLASS/*")
    classes = _class_names(data_dir / "train")
    for folder in (test_dir, val_dir):
        if folder is not None and (stray := sorted(set(_class_names(folder)) - set(classes))):
            raise UserError(f"imagefolder: {folder} has classes that {data_dir / 'train'} has not: {listed(stray)}")
    folders = {"train": data_dir / "train", "test": test_dir} | ({} if val_dir is None else {"val": val_dir})
    splits = {role: _scan(folder, classes, size=image_size) for role, folder in folders.items()}
    labels = {folders[role]: split.labels.tolist() for role, split in splits.items()}
    check_classes(f"images ({ENDINGS})", classes, labels)
    spec = Spec(
        name="imagefolder",
        classes=len(classes),
        channels=3,
        image_size=image_size,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        class_names=classes,
        augment="imagenet",
        resize=test_side(image_size),
    )
    return Source(spec, **splits)


def _visible(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if not entry.name.startswith("."))
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}") from error


def _class_names(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in _visible(folder) if entry.is_dir()))


def _scan(folder: Path, classes: tuple[str, ...], *, size: int) -> FolderSplit:
    names: list[bytes] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        if not (folder / name).is_dir():
            continue
        files = sorted(e.name for e in _visible(folder / name) if e.name.lower().endswith(EXTENSIONS) and e.is_file())
        names.extend(os.fsencode(f"{name}/{file}") for file in files)
        labels.extend([label] * len(files))
    if not names:
        raise UserError(f"{folder}: no images in class folders ({ENDINGS})")
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    return FolderSplit(str(folder), b"".join(names), ends, np.array(labels, np.int64), size)
