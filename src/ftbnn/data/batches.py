"""Batches of an epoch, from any step on, the same whoever asks and however often.

Everything random is a function of (seed, epoch, place), never of what was drawn before: the order of the epoch, the
view of each image, the seeds a user's data set sees. So a resumed run needs no state from here but the step number,
and the number of worker processes changes nothing.
"""

import hashlib
import itertools
import os
import random
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from ftbnn.data.source import ArraySplit, CorruptImage, FileSplit, Spec, Split, UserPart, UserSplit
from ftbnn.data.transforms import ARRAY_AUGMENTS, Views, cut, draw_views, plain_views, prepare
from ftbnn.errors import UserError, first_line

FILE_AUGMENTS = ("none", "imagenet")
STATISTICS_IMAGES = 512


@dataclass(frozen=True)
class Batch:
    """One process's part of a step. `share` is its weight in the step's mean gradient, times the world size."""

    images: Tensor
    labels: Tensor
    share: float = 1.0
    corrupt: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from numbers and words that name a place in the run."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """What a user's code draws inside, from any of three generators, is a function of the seed; outside they have not
    moved."""
    outer = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
    finally:
        random.setstate(outer[0])
        np.random.set_state(outer[1])  # noqa: NPY002


def raised(what: str, error: Exception) -> UserError:
    """What a user's code has raised, in one line; a worker process tells of it in many, the last of which counts."""
    if isinstance(error, UserError):
        return error
    where = traceback.extract_tb(error.__traceback__)[-1]
    text, place = f"{type(error).__name__}: {first_line(error)}", f"{Path(where.filename).name}, line {where.lineno}"
    if "in DataLoader worker process" in text:
        text, place = str(error).strip().splitlines()[-1], "in a worker process"
    return UserError(f"{what} raises {text} ({place})")


def plan_steps(size: int, batch_size: int, world: int) -> list[tuple[int, int]]:
    """Cuts `size` places into steps of `batch_size`, all of them, each once.

    A remainder too small to give every process two images (BatchNorm needs two) joins the step before it.
    """
    edges = [*range(0, size, batch_size), size]
    if len(edges) > 2 and edges[-1] - edges[-2] < 2 * world:
        del edges[-2]
    return list(itertools.pairwise(edges))


class _Decoder:
    """What a worker process runs for one place of the epoch: (index, seed) -> (image, label), or what is wrong with it.

    A text is a corrupt image's path and reason, a UserError a mistake in a user's data set: exceptions themselves would
    come out of a worker as pages of traceback.
    """

    def __init__(self, split: FileSplit | UserSplit, *, random_views: bool) -> None:
        self.split = split
        self.random_views = random_views

    def __getitem__(self, place: tuple[int, int]) -> Any:
        index, seed = place
        if not isinstance(self.split, FileSplit):
            return self._user_item(self.split, index, seed)
        try:
            return self.split.image(index, seed if self.random_views else None), self.split.label(index)
        except CorruptImage as error:
            return str(error)

    @staticmethod
    def _user_item(split: UserSplit, index: int, seed: int) -> Any:
        own = split.indices[index] if isinstance(split, UserPart) else index
        with drawing_from(seed):
            try:
                return _checked(split[index], own)
            except Exception as error:  # whatever a user's data set may raise
                return raised(f"item {own} of your data set", error)


def _checked(item: Any, index: int) -> tuple[Tensor, Any] | UserError:
    """A user's item as a float image and a label: a whole number, or floats or a tensor for a loss of their own."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        return UserError(f"item {index} of your data set is a {type(item).__name__}; it must be (image, label)")
    image, label = item
    if isinstance(image, np.ndarray):
        image = torch.from_numpy(image)
    if not isinstance(image, Tensor) or not image.is_floating_point():
        kind = f"{image.dtype} values" if isinstance(image, Tensor) else type(image).__name__
        return UserError(f"the image of item {index} of your data set has {kind}; it must be a tensor of floats")
    if isinstance(label, Tensor | np.ndarray | np.generic) and label.ndim == 0:
        label = label.item()
    if isinstance(label, np.ndarray):
        label = torch.from_numpy(label)
    if isinstance(label, bool) or not isinstance(label, int | float | Tensor):
        return UserError(
            f"the label of item {index} of your data set must be a whole number (a float or tensor for a loss of your "
            f"own), not {item[1]!r}"
        )
    return image.to(torch.float32), label


def _collate(items: list[Any]) -> tuple[Any, tuple[str, ...]]:
    for item in items:
        if isinstance(item, UserError):
            return item, ()
    good = [item for item in items if not isinstance(item, str)]
    shapes = {tuple(image.shape) for image, _ in good}
    if len(shapes) > 1:
        return UserError(f"the images of a batch differ in shape: {' and '.join(map(str, sorted(shapes)[:2]))}"), ()
    return default_collate(good) if good else None, tuple(item for item in items if isinstance(item, str))


def _stand_apart(_: int) -> None:
    """A signal to the whole process group is the training process's to answer: its workers are in groups of their own,
    and end when it ends or ends them."""
    os.setpgid(0, 0)


def single(labels: Tensor) -> Tensor:
    """Floats as networks give them: Python's and NumPy's are doubles, which no loss takes beside float32."""
    return labels.float() if labels.dtype == torch.float64 else labels


def first_images(batches: Iterable[Batch], enough: int = STATISTICS_IMAGES) -> Iterator[Tensor]:
    """Images of the first batches, as many as statistics need."""
    seen = 0
    for batch in batches:
        if len(batch):
            yield batch.images
        seen += len(batch)
        if seen >= enough:
            return


def ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, the next one made by a thread while the last is in use."""
    with ThreadPoolExecutor(1, "batches", torch.set_num_threads, (1,)) as thread:
        coming = thread.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = thread.submit(next, batches, None)
            yield batch


class Batches:
    """The batches of a split. With `shuffle` each epoch has its own order and views; without, the plain order.

    Images come normalised, or, `raw`, as the 8 bits they are.
    """

    def __init__(
        self,
        split: Split,
        spec: Spec | None = None,
        *,
        batch_size: int,
        shuffle: bool,
        augmentation: str = "none",
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        workers: int = 0,
        raw: bool = False,
    ) -> None:
        if batch_size < world:
            raise UserError(f"batch_size={batch_size} is less than the {world} processes; raise it")
        if not len(split):
            raise UserError("a split of the data is empty")
        allowed = ARRAY_AUGMENTS if isinstance(split, ArraySplit) else FILE_AUGMENTS
        if augmentation not in allowed:
            kind = "in-memory data" if isinstance(split, ArraySplit) else "image files and data sets of your own"
            raise UserError(f"augment={augmentation} is not for {kind}, which take {' or '.join(allowed)}")
        self.split, self.spec = split, spec
        self.shuffle, self.augmentation, self.seed = shuffle, augmentation, seed
        self.rank, self.world, self.workers, self.raw = rank, world, workers, raw
        self.steps = plan_steps(len(split), batch_size, world)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def images(self) -> int:
        """How many an epoch has."""
        return len(self.split)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch from step `start` on."""
        size = len(self.split)
        order = torch.arange(size)
        if self.shuffle:
            order = torch.randperm(size, generator=self._generator(epoch))
        if isinstance(self.split, ArraySplit):
            return ahead(self._from_memory(self.split, epoch, start, order))
        batches = self._from_files(self.split, epoch, start, order.tolist())
        # Workers are ahead by themselves; a user's own code draws from generators that the training draws from too.
        return ahead(batches) if isinstance(self.split, FileSplit) and not self.workers else batches

    def _generator(self, *place: int) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(self.seed, *place))

    def _share(self, step: int, own: int) -> float:
        first, last = self.steps[step]
        return own * self.world / (last - first)

    def _from_memory(self, split: ArraySplit, epoch: int, start: int, order: Tensor) -> Iterator[Batch]:
        alternates = self.shuffle and self.augmentation == "crop-alternate"
        mirrored = self._mirrored(epoch) if alternates else None
        for step in range(start, len(self.steps)):
            first, last = self.steps[step]
            own = order[first + self.rank : last : self.world]
            views = plain_views(len(own))
            if self.shuffle:
                shape = (len(own), *split.images.shape[1:])
                views = draw_views(self.augmentation, shape, self._generator(epoch, step, self.rank))
            if mirrored is not None:
                views = views._replace(mirrored=mirrored[own])
            yield Batch(self._view(split.images, own, views), split.labels[own], self._share(step, len(own)))

    def _mirrored(self, epoch: int) -> Tensor:
        """Each image one way in even epochs and the other way in odd ones: two epochs show both, by chance half do."""
        first = torch.rand(len(self.split), generator=self._generator()) < 0.5
        return first ^ bool(epoch % 2)

    def _view(self, images: Tensor, which: Tensor, views: Views) -> Tensor:
        if self.raw or self.spec is None or images.dtype != torch.uint8:
            return cut(images[which], views)
        return prepare(images, which, views, self.spec.mean, self.spec.std)

    def _from_files(
        self, split: FileSplit | UserSplit, epoch: int, start: int, order: Sequence[int]
    ) -> Iterator[Batch]:
        places = [
            [(order[k], derive_seed(self.seed, epoch, order[k])) for k in range(first + self.rank, last, self.world)]
            for first, last in self.steps[start:]
        ]
        decoder = _Decoder(split, random_views=self.shuffle and self.augmentation != "none")
        loader: DataLoader[Any] = DataLoader(
            decoder,  # type: ignore[arg-type]
            batch_sampler=places,
            num_workers=self.workers,
            collate_fn=_collate,
            worker_init_fn=_stand_apart,
            generator=torch.Generator(),  # the loader draws a base seed for its workers; the run's own must not move
        )
        for step, (batch, corrupt) in enumerate(loader, start=start):
            share = self._share(step, len(places[step - start]))
            if isinstance(batch, UserError):
                raise batch
            if batch is None:
                yield Batch(torch.empty(0), torch.empty(0, dtype=torch.int64), share, corrupt)
                continue
            images, labels = batch
            if images.dtype == torch.uint8:
                images = self._view(images, torch.arange(len(images)), plain_views(len(images)))
            yield Batch(images, single(torch.as_tensor(labels)), share, corrupt)
