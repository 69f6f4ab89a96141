"""Data sets by name: `load` gives their splits, `download` brings the files; `source_of` takes a user's own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ftbnn.data.cifar import cifar10, cifar100
from ftbnn.data.digits import digits
from ftbnn.data.download import download
from ftbnn.data.idx import fashion_mnist, mnist
from ftbnn.data.imagefolder import imagefolder
from ftbnn.data.own import source_of_own
from ftbnn.data.sounds import sounds
from ftbnn.data.source import ArraySplit, CorruptImage, Source, Spec
from ftbnn.data.synthetic import synthetic
from ftbnn.errors import UserError, unknown

__all__ = ["SOURCES", "ArraySplit", "CorruptImage", "Entry", "Source", "Spec", "download", "load", "source_of"]


@dataclass(frozen=True)
class Entry:
    """A data set: what loads it, what it is, whether it lies in a directory, its one image size if it has one, and
    on what terms its owners give it away."""

    loader: Callable[..., Source]
    about: str
    needs_dir: bool
    image_size: int | None
    licence: str = ""


SOURCES: dict[str, Entry] = {
    "digits": Entry(
        digits, "1797 handwritten digits, 8x8 grey, 10 classes; part of scikit-learn", False, 8, "CC BY 4.0 (UCI)"
    ),
    "mnist": Entry(
        mnist, "70000 handwritten digits, 28x28 grey, 10 classes", True, 28, "none stated; often quoted as CC BY-SA 3.0"
    ),
    "fashion-mnist": Entry(fashion_mnist, "70000 pieces of clothing, 28x28 grey, 10 classes", True, 28, "MIT"),
    "cifar10": Entry(cifar10, "60000 photographs, 32x32 colour, 10 classes", True, 32, "none stated"),
    "cifar100": Entry(cifar100, "60000 photographs, 32x32 colour, 100 classes", True, 32, "none stated"),
    "imagefolder": Entry(imagefolder, "your own, or ImageNet: train/CLASS/* and val/CLASS/*", True, None),
    "sounds": Entry(sounds, "words in WAV files, as pictures: train/CLASS/*.wav, or Free Spoken Digits", True, None),
    "synthetic": Entry(synthetic, "made images for trials: 10 patterns under noise, 32x32 colour", False, None),
}


def load(name: str, data_dir: str | Path | None = None, *, image_size: int | None = None) -> Source:
    """The data set of that name from its directory; imagefolder, sounds and synthetic have images of any size."""
    if name not in SOURCES:
        raise unknown("data set", name, SOURCES, hint="`ftbnn data` lists all")
    entry = SOURCES[name]
    settings: dict[str, int] = {}
    if image_size is not None:
        if image_size < 1:
            raise UserError(f"the image size must be 1 or more, not {image_size}")
        if entry.image_size is None:
            settings["image_size"] = image_size
        elif image_size != entry.image_size:
            raise UserError(f"the images of {name} are {entry.image_size}x{entry.image_size}, not {image_size}")
    if not entry.needs_dir:
        if data_dir is not None:
            raise UserError(f"{name} needs no files: say which data lie in {data_dir}, or leave the directory out")
        return entry.loader(**settings)
    if data_dir is None:
        own = {
            "imagefolder": "with train/CLASS/* and val/CLASS/*",
            "sounds": "with train/CLASS/*.wav and test/CLASS/*.wav",
        }
        how = own.get(name, f"(`ftbnn data {name}` fills one)")
        raise UserError(f"{name} lies in a directory {how}: say in which (data_dir)")
    data_dir = Path(data_dir)
    if not data_dir.is_dir():
        raise UserError(f"{name}: there is no directory {data_dir}")
    return entry.loader(data_dir, **settings)


def source_of(data: Any) -> Source:
    """Data as `fit` takes them: a name, a Source, or data sets or DataLoaders of one's own, (train, test) or
    (train, validation, test)."""
    if isinstance(data, Source):
        return data
    if not isinstance(data, str):
        return source_of_own(data)
    if data in SOURCES and SOURCES[data].needs_dir:  # who takes a name alone has no parameter for the directory
        raise UserError(f"{data} lies in a directory: give ftbnn.data.load({data!r}, data_dir)")
    return load(data)
