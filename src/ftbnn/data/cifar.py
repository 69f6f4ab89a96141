"""cifar10 and cifar100: the official binary files, unpacked or still in their archive."""

import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ftbnn.data.source import ArraySplit, Source, Spec
from ftbnn.errors import UserError

SIDE = 32
PIXELS_BYTES = 3 * SIDE * SIDE
MOST_BYTES = 2**28  # the largest official file has 154 MB; a made archive must not fill the memory


@dataclass(frozen=True)
class _Layout:
    """Which files, and how many label bytes stand before an image (of which the last one counts)."""

    name: str
    classes: int
    archive: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str
    label_bytes: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, *self.test, self.names)


CIFAR10 = _Layout(
    name="cifar10",
    classes=10,
    archive="cifar-10-binary.tar.gz",
    folder="cifar-10-batches-bin",
    train=tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
    test=("test_batch.bin",),
    names="batches.meta.txt",
    label_bytes=1,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR100 = _Layout(
    name="cifar100",
    classes=100,
    archive="cifar-100-binary.tar.gz",
    folder="cifar-100-binary",
    train=("train.bin",),
    test=("test.bin",),
    names="fine_label_names.txt",
    label_bytes=2,
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
)


def cifar10(data_dir: Path) -> Source:
    return _load(CIFAR10, data_dir)


def cifar100(data_dir: Path) -> Source:
    return _load(CIFAR100, data_dir)


def _load(layout: _Layout, data_dir: Path) -> Source:
    where, read = _open(layout, data_dir)
    class_names = tuple(read(layout.names).decode(errors="replace").split())
    if len(class_names) != layout.classes:
        raise UserError(f"{where}/{layout.names}: {len(class_names)} class names instead of {layout.classes}")

    def split(files: tuple[str, ...]) -> ArraySplit:
        parts = [_records(layout, f"{where}/{file}", read(file)) for file in files]
        return ArraySplit(torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts]))

    spec = Spec(
        name=layout.name,
        classes=layout.classes,
        channels=3,
        image_size=SIDE,
        mean=layout.mean,
        std=layout.std,
        class_names=class_names,
        augment="crop-flip",
    )
    return Source(spec, train=split(layout.train), test=split(layout.test))


def _open(layout: _Layout, data_dir: Path) -> tuple[Path, Callable[[str], bytes]]:
    """Where the files are, and what reads one of them."""
    folders = (data_dir / layout.folder, data_dir)
    missing = {folder: [file for file in layout.files if not (folder / file).is_file()] for folder in folders}
    folder = min(folders, key=lambda f: len(missing[f]))
    if not missing[folder]:
        return folder, lambda file: _read(folder / file)
    archive = data_dir / layout.archive
    if archive.is_file():
        contents = _unpack(layout, archive)
        return archive, lambda file: contents[file]
    raise UserError(
        f"{layout.name}: {', '.join(missing[folder])} not found in {folder}, nor {layout.archive} in {data_dir}; "
        f"`ftbnn data {layout.name}` downloads it"
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def _unpack(layout: _Layout, archive: Path) -> dict[str, bytes]:
    """The wanted members in memory: nothing an archive says is ever written to the disk."""
    wanted = {f"{layout.folder}/{file}": file for file in layout.files}
    contents = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                file = wanted.get(member.name.removeprefix("./"))
                if file is None or not member.isreg():
                    continue
                if member.size > MOST_BYTES:
                    raise UserError(f"{archive}: {member.name} is far too large; download the archive again")
                stream = tar.extractfile(member)
                assert stream is not None
                contents[file] = stream.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise UserError(f"{archive}: cannot be unpacked ({error}); download it again") from error
    missing = [file for file in layout.files if file not in contents]
    if missing:
        raise UserError(f"{archive}: {', '.join(missing)} not in it; download it again")
    return contents


def _records(layout: _Layout, where: str, data: bytes) -> ArraySplit:
    """Records of label bytes, then 1024 red, 1024 green and 1024 blue pixels."""
    record_bytes = layout.label_bytes + PIXELS_BYTES
    if not data or len(data) % record_bytes:
        raise UserError(
            f"{where}: {len(data)} bytes are not whole records of {record_bytes}; truncated? download it again"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, record_bytes)
    labels = records[:, layout.label_bytes - 1].astype(np.int64)
    if labels.max() >= layout.classes:
        raise UserError(f"{where}: label {labels.max()}, where 0 to {layout.classes - 1} are the classes")
    images = records[:, layout.label_bytes :].reshape(-1, 3, SIDE, SIDE)
    return ArraySplit(torch.from_numpy(images.copy()), torch.from_numpy(labels))
