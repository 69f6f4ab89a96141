"""A .ftbnn file as a function: images in, scores out."""

import operator
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ftbnn import _native
from ftbnn._native import FormatError
from ftbnn.errors import UserError, wrong_kind
from ftbnn.runtime.images import CHANNELS, centre_view, picture_of, upright
from ftbnn.text import counted, line
from ftbnn.zoo import resolve

Images = NDArray[Any] | Image.Image | Sequence[NDArray[Any] | Image.Image]
Layout = Literal["NCHW", "NHWC"]
OTHER: dict[Layout, Layout] = {"NCHW": "NHWC", "NHWC": "NCHW"}
GREY_BATCH: dict[Layout, str] = {"NCHW": "images[:, None]", "NHWC": "images[..., None]"}  # of (N, H, W)
Given = str | os.PathLike[str] | bytes | bytearray | memoryview | BytesIO
MOST_FILE_BYTES = 2**31  # docs/format.md
MOST_THREADS = 1024
NO_LIMIT = 2**64 - 1


@contextmanager
def naming(file: str | os.PathLike[str]) -> Iterator[None]:
    """Where the native core reads a file: what it raises says which."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {_shown(file)}: {error.strerror or error}") from error
    except FormatError as error:
        raise FormatError(f"{_shown(file)}: {error}") from None


def _shown(file: str | os.PathLike[str]) -> str:
    return line(os.fspath(file), 200)


@dataclass(frozen=True)
class OperatorTime:
    """One operator's part of a run."""

    path: str
    kind: str
    time_ms: float
    share: float
    gmacs_per_s: float  # 0 for an operator without multiply-accumulates


@dataclass(frozen=True)
class Guess:
    """A class that an image may be of: its name, its number, and its share of all (softmax)."""

    name: str
    index: int
    share: float


def _bytes_of(source: Given) -> bytes | None:
    """What is in memory already; None of a path."""
    if isinstance(source, BytesIO):
        return source.getvalue()
    return bytes(source) if isinstance(source, bytes | bytearray | memoryview) else None


def _check_file(path: str) -> None:
    """A pipe would block for ever, and a huge file would be read before its size is compared."""
    if "\0" in path:
        raise UserError(f"cannot read {_shown(path)}: a path has no null character")
    with naming(path):
        facts = Path(path).stat()
    if not stat.S_ISREG(facts.st_mode):
        raise UserError(f"cannot read {_shown(path)}: it is not a file")
    if facts.st_size > MOST_FILE_BYTES:
        raise FormatError(f"{_shown(path)}: {facts.st_size} bytes are more than a file may have")


def _whole(name: str, value: Any, most: int | None = None) -> int:
    """A whole number from 1 on, of any type that is one (NumPy's too)."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if isinstance(value, bool) or not 1 <= number <= (most or number):
        upper = f"from 1 to {most}" if most else "from 1 on"
        raise UserError(f"{name} must be a whole number {upper}, not {value!r}")
    return number


class Model:
    """A loaded network. May be called from several threads at once; the GIL is released while it runs."""

    def __init__(self, source: Given, *, threads: int | None = None, **settings: Any) -> None:
        if not isinstance(source, str | os.PathLike | bytes | bytearray | memoryview | BytesIO):
            raise wrong_kind("a model is a path, zoo:NAME or the bytes of a file", source)
        given = _bytes_of(source)
        name = "these bytes" if given is not None else os.fspath(source)  # type: ignore[arg-type]
        count = _native.cores() if threads is None else _whole("threads", threads, MOST_THREADS)
        for setting in ("max_bytes", "max_macs"):
            if setting in settings:
                settings[setting] = min(_whole(setting, settings[setting]), NO_LIMIT)
        if not isinstance(isa := settings.get("isa", ""), str):
            raise UserError(f"isa is a name, as `ftbnn info` lists them, not {isa!r}")
        if given is None:
            _check_file(name)
        with naming(name):
            self._open: _native.Engine | None = _native.Engine(given if given is not None else name, count, **settings)
        self._made_of = (given if given is not None else str(Path(name).absolute()), count, settings)
        self.name: str = self._engine.name
        self.input_shape: tuple[int, int, int] = self._engine.input_shape
        self.output_shape: tuple[int, int, int] = self._engine.output_shape
        self.class_names: list[str] = self._engine.class_names
        self.mean: list[float] = self._engine.mean
        self.std: list[float] = self._engine.std
        self.resize: int = self._engine.resize  # a photo's shorter side before its centre is cut out
        self.threads: int = self._engine.threads
        self.isa: str = self._engine.isa

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.input_shape))
        outputs, threads = counted(int(np.prod(self.output_shape)), "output"), counted(self.threads, "thread")
        return f"Model({line(self.name)!r}, input {shape}, {outputs}, {self.isa}, {threads})"

    @property
    def _engine(self) -> _native.Engine:
        if self._open is None:
            raise UserError("this model is closed; load it again")
        return self._open

    def close(self) -> None:
        """Gives memory and threads back, once calls under way are done; a `with` block does so at its end."""
        self._open = None

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        """Another process loads the same file or bytes."""
        return _load_again, self._made_of

    def top(self, images: Images, k: int = 5, *, layout: Layout | None = None) -> list[list[Guess]]:
        """The `k` likeliest classes of each image, best first."""
        k = _whole("k", k)
        batch = self._batch(images, layout)
        scores = self._scores(batch)
        if not np.isfinite(scores).all():
            what = (
                "its weights" if batch.dtype == np.uint8 else f"its weights, or floats of up to {abs(batch).max():.3g},"
            )
            raise UserError(f"the network's scores are not finite: {what} are too large")
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        order = np.argsort(-shares, axis=1, kind="stable")[:, :k]
        names = self.class_names or [str(number) for number in range(scores.shape[1])]
        return [[Guess(names[i], int(i), float(row[i])) for i in best] for row, best in zip(shares, order, strict=True)]

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Images]) -> list[NDArray[np.float32]]:
        """As ONNX Runtime's sessions have it: `model.run(None, {"input": x})[0]` is `model(x)`; any name will do."""
        if not isinstance(feeds, Mapping):
            raise UserError(f"feeds are images under a name, {{'input': images}}, not of type {type(feeds).__name__}")
        if len(feeds) != 1 or (outputs is not None and len(outputs) != 1):
            raise UserError(f"the network has one input and one output, not {list(feeds)} and {outputs}")
        return [self(next(iter(feeds.values())))]

    def __call__(self, images: Images, *, layout: Layout | None = None) -> NDArray[np.float32]:
        """Scores (N, outputs).

        Takes float32 (N, C, H, W), normalised already and of the network's size; or 8-bit images of any size, (H, W, C)
        or (H, W), of PIL, a batch (N, H, W, C) or a list of them, which are normalised as the file says, and resized
        and cut out too unless they have the network's size already.
        So floats have their channels first and bytes last, unless `layout` says "NHWC" or "NCHW" of either.
        """
        return self._scores(self._batch(images, layout))

    def _scores(self, batch: NDArray[Any]) -> NDArray[np.float32]:
        out = np.empty((len(batch), int(np.prod(self.output_shape))), np.float32)
        if batch.dtype == np.uint8:
            self._engine.run_u8(batch, out)
        else:
            self._engine.run_f32(batch, out)
        return out

    def profile(self, images: Images, *, rounds: int = 20, layout: Layout | None = None) -> list[OperatorTime]:
        """Where the time goes for one image: the fastest of `rounds` for each operator."""
        rounds = _whole("rounds", rounds)
        batch = self._batch(images, layout)[:1]
        profile = self._engine.profile_u8 if batch.dtype == np.uint8 else self._engine.profile_f32
        seconds = profile(batch, rounds)
        rows = [{"path": "", "kind": "input", "macs": 0}, *self.operators()]
        total = sum(seconds)
        return [
            OperatorTime(
                row["path"], row["kind"], 1e3 * taken, taken / total, 1e-9 * row["macs"] / taken if taken else 0.0
            )
            for row, taken in zip(rows, seconds, strict=True)
        ]

    def operators(self) -> list[dict[str, Any]]:
        """What the network is made of."""
        keys = ("path", "kind", "macs", "output_shape", "weight_bits", "weight_bytes")
        return [dict(zip(keys, row, strict=True)) for row in self._engine.operators()]

    def _batch(self, images: Images, layout: Layout | None) -> NDArray[Any]:
        """As the engine reads them: floats with their channels first, bytes of the network's size with theirs last."""
        if layout not in (None, "NCHW", "NHWC"):
            raise UserError(f"layout is 'NCHW' or 'NHWC', not {layout!r}")
        several: Sequence[Any] | NDArray[Any]
        if isinstance(images, (list, tuple)):
            several = images
        elif isinstance(images, Image.Image):
            several = [images]
        else:
            array = np.asarray(images)  # a tensor, too
            if array.dtype == np.float32:
                return self._floats(array, layout or "NCHW")
            if array.dtype != np.uint8:
                raise UserError(f"images must be float32 or uint8, not {array.dtype}{_cast(array.dtype)}")
            if array.ndim == 4 and len(array):
                channels, height, width = self.input_shape
                last = np.moveaxis(array, 1, -1) if layout == "NCHW" else array
                if last.shape[1:] == (height, width, channels):
                    return np.ascontiguousarray(last)
            several = array if array.ndim == 4 else [array]
        if not len(several):
            raise UserError("the batch is empty")
        return np.stack([self._fit(image, layout or "NHWC") for image in several])

    def _floats(self, array: NDArray[np.float32], layout: Layout) -> NDArray[np.float32]:
        """Normalised images, which must have the network's size."""
        channels, height, width = self.input_shape
        shapes = {"NCHW": (channels, height, width), "NHWC": (height, width, channels)}
        shape, other = array.shape, OTHER[layout]
        if array.ndim != 4 or shape[1:] != shapes[layout]:
            advice = []
            if shape[-3:] == shapes[other] != shapes[layout]:
                advice.append(f'say layout="{other}"')
            if shape in shapes.values():
                advice.append("give images[None]")
            elif channels == 1 and shape[1:] == (height, width):
                advice.append(f"give {GREY_BATCH[layout]}")
            wanted = ", ".join(map(str, shapes[layout]))
            how = f": {' and '.join(advice)}" if advice else ""
            raise UserError(f"float images must be (N, {wanted}), not {shape}{how}")
        if not len(array):
            raise UserError("the batch is empty")
        return np.ascontiguousarray(array if layout == "NCHW" else np.moveaxis(array, -1, 1))

    def _fit(self, given: Any, layout: Layout) -> NDArray[np.uint8]:
        """An 8-bit image as the network wants it, whether it was given as a picture or as an array."""
        channels, height, width = self.input_shape
        if not isinstance(given, Image.Image):
            image = np.asarray(given)
            shape = image.shape
            if image.dtype != np.uint8 or image.ndim not in (2, 3) or 0 in shape:
                color = "(H, W, C)" if layout == "NHWC" else "(C, H, W)"
                how = ": give floats as one array, np.stack(images)" if image.dtype == np.float32 else ""
                raise UserError(f"an image must be uint8 (H, W) or {color}, not {image.dtype} {shape}{how}")
            if layout == "NCHW" and image.ndim == 3:
                image = np.moveaxis(image, 0, -1)
            if image.shape == (height, width, channels):
                return image
            if image.ndim == 3 and image.shape[2] not in CHANNELS:
                place, elsewhere = ("last", "first") if layout == "NHWC" else ("first", "last")
                raise UserError(
                    f'{shape} is no image of 1, 3 or 4 channels, which come {place}: say layout="{OTHER[layout]}" if '
                    f"they come {elsewhere}; a batch of grey images is {GREY_BATCH[layout]}"
                )
            given = picture_of(image)
        return centre_view(upright(given), channels=channels, size=(height, width), side=self.resize)


def _cast(dtype: np.dtype[Any]) -> str:
    """How numbers of another type become images, if they may be some."""
    if dtype.kind == "f":
        return ": give images.astype(np.float32)"
    return ": give images.astype(np.uint8) if they are from 0 to 255" if dtype.kind in "iu" else ""


def load(
    source: Given,
    *,
    threads: int | None = None,
    max_bytes: int | None = None,
    max_macs: int | None = None,
    isa: str | None = None,
    any_order: bool = False,
) -> Model:
    """Opens a .ftbnn file, its bytes, or `zoo:NAME`. Raises FormatError if it is not one, UserError if unreadable.

    `threads` is by default one per core that the process may use. `max_bytes` and `max_macs` are what a file may ask
    for, in memory and in operations an image (docs/format.md). `isa` is one of `ftbnn info`'s, by default FTBNN_ISA or
    the best. `any_order` lets real convolutions sum in another order where that is faster: a large stem then takes
    half the time and rounds otherwise (docs/kernels.md).
    """
    if isinstance(source, str | os.PathLike):
        source = resolve(Path(source) if isinstance(source, os.PathLike) else source)
    wanted = {"max_bytes": max_bytes, "max_macs": max_macs, "isa": isa, "any_order": any_order or None}
    return Model(source, threads=threads, **{name: value for name, value in wanted.items() if value is not None})


def _load_again(source: str | bytes, threads: int, settings: dict[str, Any]) -> Model:
    return Model(source, threads=threads, **settings)
