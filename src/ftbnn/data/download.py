"""Official files by name: fetched with resume, checked by md5, and only then given their name."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from ftbnn.errors import UserError, unknown

CHUNK_BYTES = 2**18
TIMEOUT_S = 30
NETWORK_ERRORS = (OSError, HTTPException, ValueError)  # ValueError: a URL that is none


@dataclass(frozen=True)
class Remote:
    """Where the files are, the folder of DIR they belong into, and their md5 sums."""

    base: str
    folder: str
    md5: dict[str, str]


REMOTES: dict[str, Remote] = {
    # The two share their file names, so each has a folder of its own.
    "mnist": Remote(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "mnist",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "fashion-mnist": Remote(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "fashion-mnist",
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "cifar10": Remote(
        "https://www.cs.toronto.edu/~kriz", "", {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"}
    ),
    "cifar100": Remote(
        "https://www.cs.toronto.edu/~kriz", "", {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"}
    ),
}
INSTEAD = {
    "digits": "comes with scikit-learn; there is nothing to download",
    "synthetic": "is made on the fly; there is nothing to download",
    "sounds": "are WAV files of your own, train/CLASS/* and test/CLASS/*, or a clone of Free Spoken Digits",
    "imagefolder": "is a folder of your own, train/CLASS/* and val/CLASS/*; ImageNet needs an account at image-net.org",
}


def download(name: str, out: Path, mirror: str | None = None) -> list[Path]:
    """Fetches what is not there yet and returns the paths of all files."""
    if name in INSTEAD:
        raise UserError(f"{name} {INSTEAD[name]}")
    if name not in REMOTES:
        raise unknown("data set", name, REMOTES)
    remote = REMOTES[name]
    base = (mirror or remote.base).rstrip("/")
    if not base.startswith(("http://", "https://", "file://")):
        raise UserError(f"a mirror is an address that begins with http://, https:// or file://, not {base!r}")
    folder = out / remote.folder
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    wanted = [file for file, md5 in remote.md5.items() if not _matches(folder / file, md5)]
    for file in remote.md5:
        if file not in wanted:
            print(f"{folder / file}: already there", file=sys.stderr)
    for k, file in enumerate(wanted):
        reason = _fetch(f"{base}/{file}", folder / file, remote.md5[file])
        if reason:
            raise UserError(
                f"{base}/{file}: {reason}; run again to continue, or put {', '.join(wanted[k:])} "
                f"from {base} into {folder}"
            )
    return [folder / file for file in remote.md5]


def _fetch(url: str, target: Path, md5: str) -> str | None:
    """Brings one file; returns why the network failed, or None. Tries again as long as each try brings new bytes."""
    part = target.with_name(f"{target.name}.part")
    while not _matches(part, md5):
        before = _size_bytes(part)
        reason = _receive(url, part)
        if reason is None:
            break
        if _size_bytes(part) <= before:
            return reason
    if not _matches(part, md5):
        part.unlink(missing_ok=True)
        raise UserError(f"{url}: wrong checksum, so the file was thrown away; try again, or from another mirror")
    with _writing(target):
        part.replace(target)
    return None


def _receive(url: str, part: Path) -> str | None:
    """Appends what the server still has; returns why it ended too early, or None."""
    try:
        response, start = _open(url, _size_bytes(part))
    except NETWORK_ERRORS as error:
        return _reason(error)
    length = response.headers.get("Content-Length")
    total = start + int(length) if length and length.isdigit() else None
    reached = start
    with response, _writing(part), part.open("ab" if start else "wb") as file, _progress(url, start, total) as bar:
        while True:
            try:
                chunk = response.read(CHUNK_BYTES)
            except NETWORK_ERRORS as error:
                return _reason(error)
            if not chunk:
                break
            file.write(chunk)
            reached += len(chunk)
            if bar is not None:
                bar.update(len(chunk))
    return None if total in (None, reached) else f"broke off after {reached} of {total} bytes"


def _open(url: str, offset: int) -> tuple[Any, int]:
    """The answer, and the byte it begins with: `offset`, or 0 from a server that will not begin there."""
    headers = {"User-Agent": "ftbnn"} | ({"Range": f"bytes={offset}-"} if offset else {})
    try:
        response = urlopen(Request(url, headers=headers), timeout=TIMEOUT_S)
    except HTTPError as error:
        error.close()
        if error.code == 416 and offset:  # our part is longer than the file
            return _open(url, 0)
        raise
    if response.status != 206:
        return response, 0
    if offset and response.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
        return response, offset
    response.close()
    if not offset:
        raise HTTPException("the server sent a range nobody asked for")
    return _open(url, 0)


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"HTTP {error.code} {error.reason}"
    cause = error.reason if isinstance(error, URLError) else error
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return str(text).splitlines()[0]


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def _progress(url: str, start: int, total: int | None) -> Iterator[Any]:
    """A bar on a terminal; elsewhere, one line."""
    if sys.stderr.isatty() and find_spec("tqdm") is not None:
        from tqdm import tqdm

        name = url.rpartition("/")[2]
        with tqdm(desc=name, initial=start, total=total, unit="B", unit_scale=True, file=sys.stderr) as bar:
            yield bar
    else:
        print(f"{url}: " + (f"{total} bytes" if total else "fetching"), file=sys.stderr)
        yield None


def _size_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _matches(path: Path, md5: str) -> bool:
    if not path.is_file():
        return False
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest() == md5
