"""mnist and fashion-mnist: four idx files, gzipped or not, under their official names."""

import gzip
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ftbnn.data.source import ArraySplit, Source, Spec
from ftbnn.errors import UserError

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
GZIP_MAGIC = b"\x1f\x8b"
UINT8 = 8  # idx's code for the type
MOST_ITEMS = 2**20  # a broken header must not ask for terabytes

MNIST = Spec(
    name="mnist",
    classes=10,
    channels=1,
    image_size=28,
    mean=(0.1307,),
    std=(0.3081,),
    class_names=tuple("0123456789"),
    augment="crop",
)
FASHION_MNIST = Spec(
    name="fashion-mnist",
    classes=10,
    channels=1,
    image_size=28,
    mean=(0.2860,),
    std=(0.3530,),
    class_names=tuple("T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot".split(",")),
    augment="crop-flip",
)


def mnist(data_dir: Path) -> Source:
    return _load(MNIST, data_dir, torchvision_name="MNIST")


def fashion_mnist(data_dir: Path) -> Source:
    return _load(FASHION_MNIST, data_dir, torchvision_name="FashionMNIST")


def _load(spec: Spec, data_dir: Path, *, torchvision_name: str) -> Source:
    paths = _find(spec.name, data_dir, (spec.name, torchvision_name))
    train_images, train_labels, test_images, test_labels = (paths[name] for name in FILES)
    return Source(
        spec,
        train=_split(spec, train_images, train_labels, "train"),
        test=_split(spec, test_images, test_labels, "test"),
    )


def _find(name: str, data_dir: Path, subfolders: tuple[str, ...]) -> dict[str, Path]:
    """The four files of one folder: both data sets have the same names, so folders are never mixed."""
    folders = [data_dir / sub / raw for sub in subfolders for raw in ("", "raw")] + [data_dir]
    found = max((_present(folder) for folder in folders), key=len)
    if missing := [f"{file}.gz" for file in FILES if file not in found]:
        where = next(iter(found.values())).parent if found else f"{data_dir} or {data_dir / name}"
        raise UserError(f"{name}: {', '.join(missing)} not found in {where}; `ftbnn data {name}` downloads them")
    return found


def _present(folder: Path) -> dict[str, Path]:
    found = {}
    for file in FILES:
        dotted = file.replace("-idx", ".idx")
        paths = (folder / name for name in (file, f"{file}.gz", dotted, f"{dotted}.gz"))
        if path := next((path for path in paths if path.is_file()), None):
            found[file] = path
    return found


def _split(spec: Spec, images_path: Path, labels_path: Path, what: str) -> ArraySplit:
    side = spec.image_size
    images = read_idx(images_path, dimensions=3)
    labels = read_idx(labels_path, dimensions=1)
    if images.shape[1:] != (side, side):
        height, width = images.shape[1:]
        raise UserError(f"{images_path}: the images of {spec.name} are {side}x{side}, these are {height}x{width}")
    if len(images) != len(labels):
        raise UserError(
            f"{images_path} has {len(images)} {what} images but {labels_path} has {len(labels)} labels; "
            "take both from one download"
        )
    if len(labels) and labels.max() >= spec.classes:
        raise UserError(f"{labels_path}: label {labels.max()}, where 0 to {spec.classes - 1} are the classes")
    return ArraySplit(torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels.astype(np.int64)))


def read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """The array of an idx file: two zero bytes, type, number of dimensions, big-endian sizes, then the data."""
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(2) == GZIP_MAGIC
        with gzip.open(path) if is_gzip else path.open("rb") as file:
            header = file.read(4 + 4 * dimensions)
            if len(header) < 4 + 4 * dimensions or header[:4] != bytes((0, 0, UINT8, dimensions)):
                raise UserError(f"{path}: not an idx file of bytes in {dimensions} dimensions; download it again")
            shape = tuple(int.from_bytes(header[k : k + 4], "big") for k in range(4, len(header), 4))
            if shape[0] > MOST_ITEMS or max(shape[1:], default=0) > 2**10:
                raise UserError(f"{path}: broken header (sizes {'x'.join(map(str, shape))}); download it again")
            size_bytes = int(np.prod(shape))
            data = file.read(size_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read ({reason}); download it again") from error
    if len(data) != size_bytes:
        what = "truncated" if len(data) < size_bytes else "longer than its header says"
        raise UserError(f"{path}: {what}; download it again")
    array: NDArray[np.uint8] = np.frombuffer(data, np.uint8).reshape(shape).copy()
    return array
