"""sounds: words in WAV files as pictures (ftbnn/sounds.py).

DIR/train/CLASS/*.wav and DIR/test/CLASS/*.wav, with DIR/val/CLASS/*.wav if there is one; or Free Spoken Digits as its
repository has it, DIR/recordings/DIGIT_SPEAKER_NUMBER.wav, whose test split is every number below 5.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ftbnn.data.source import ArraySplit, Source, Spec, check_classes, listed
from ftbnn.errors import UserError
from ftbnn.sounds import ENDINGS, picture, read_wav

SIZE = 32
RECORDING = re.compile(r"(\d)_\w+_(\d+)\.wav")
TEST_BELOW = 5
MEAN, STD = (0.26,), (0.31,)  # of Free Spoken Digits

Labelled = list[tuple[Path, int]]


def sounds(data_dir: Path, *, image_size: int = SIZE) -> Source:
    """All splits in memory, each sound a grey picture of image_size bands and as many frames."""
    if (data_dir / "recordings").is_dir():
        classes, parts = _recordings(data_dir / "recordings")
    else:
        classes, parts = _folders(data_dir)
    spec = Spec("sounds", len(classes), 1, image_size, MEAN, STD, classes, augment="crop")
    splits = {name: _split(files, image_size) for name, files in parts.items()}
    return Source(spec, train=splits["train"], test=splits["test"], val=splits.get("val"))


def _recordings(folder: Path) -> tuple[tuple[str, ...], dict[str, Labelled]]:
    parts: dict[str, Labelled] = {"train": [], "test": []}
    for path in sorted(folder.iterdir()):
        if match := RECORDING.fullmatch(path.name):
            part = "test" if int(match[2]) < TEST_BELOW else "train"
            parts[part].append((path, int(match[1])))
    if not all(parts.values()):
        raise UserError(f"sounds: {folder} has no DIGIT_SPEAKER_NUMBER.wav of both splits, numbers below 5 and above")
    return tuple("0123456789"), parts


def _folders(data_dir: Path) -> tuple[tuple[str, ...], dict[str, Labelled]]:
    for name in ("train", "test"):
        if not (data_dir / name).is_dir():
            raise UserError(
                f"sounds: no folder {name} in {data_dir}; wanted are train/CLASS/*.wav and test/CLASS/*.wav"
            )
    classes = tuple(sorted(path.name for path in (data_dir / "train").iterdir() if path.is_dir()))
    parts: dict[str, Labelled] = {}
    for name in ("train", "val", "test"):
        folder = data_dir / name
        if not folder.is_dir():
            continue
        if stray := sorted({path.name for path in folder.iterdir() if path.is_dir()} - set(classes)):
            raise UserError(f"sounds: {folder} has classes that {data_dir / 'train'} has not: {listed(stray)}")
        parts[name] = [
            (path, label)
            for label, word in enumerate(classes)
            for path in sorted((folder / word).glob("*"))
            if path.suffix.lower() in ENDINGS
        ]
        if not parts[name]:
            raise UserError(f"sounds: {folder} has no *.wav in class folders")
    check_classes("*.wav", classes, {data_dir / name: [label for _, label in files] for name, files in parts.items()})
    return classes, parts


def _split(files: Sequence[tuple[Path, int]], size: int) -> ArraySplit:
    images = np.stack([picture(*read_wav(path), rows=size, columns=size) for path, _ in files])
    return ArraySplit(torch.from_numpy(images).unsqueeze(1), torch.tensor([label for _, label in files]))
