"""A user's own data: data sets or DataLoaders, alone or as (train, test) or (train, validation, test)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader

from ftbnn.data.batches import Batch, derive_seed
from ftbnn.data.source import Source
from ftbnn.errors import UserError

WANTED = "give a data set's name, a data set, or (train, test) or (train, validation, test) of them"


def source_of_own(data: Any) -> Source:
    """The splits of a user's data; training images alone are fine."""
    splits = list(data) if isinstance(data, tuple | list) else [data]
    if not 1 <= len(splits) <= 3:
        raise UserError(f"{WANTED}, not {len(splits)} of them")
    for split in splits:
        if split is None and split is not splits[0]:
            continue
        if isinstance(split, DataLoader):
            continue
        if not hasattr(split, "__getitem__") or not hasattr(split, "__len__"):
            why = "has no length: wrap it in a DataLoader" if hasattr(split, "__iter__") else f"is none: {WANTED}"
            raise UserError(f"a {type(split).__name__} as data set {why}")
    train, *others = splits
    val, test = (None, others[0] if others else None) if len(others) < 2 else others
    loaders = [isinstance(split, DataLoader) for split in (train, val, test) if split is not None]
    if any(loaders) and not all(loaders):
        raise UserError("give data sets or DataLoaders, not some of each")
    return Source(None, train, test=test, val=val)


@dataclass(frozen=True)
class LoaderBatches:
    """A DataLoader's batches, as often as they are asked for. What it draws at random is its own: a run that resumes
    within an epoch sees the same order only if the loader's sampler gives it."""

    loader: "DataLoader[Any]"
    seed: int = 0
    spec: None = None

    def __len__(self) -> int:
        try:
            return len(self.loader)
        except TypeError:
            raise UserError("a DataLoader needs a length: that of its data set, or a batch sampler's") from None

    @property
    def images(self) -> int:
        try:
            return len(self.loader.dataset)  # type: ignore[arg-type]
        except TypeError:
            return len(self) * (self.loader.batch_size or 1)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.seed, "loader", epoch))
            batches = iter(self.loader)
            first = next(batches, None)
        for step, batch in enumerate([] if first is None else _chain(first, batches)):
            if step < start:
                continue
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise UserError("a DataLoader must give (images, labels)")
            images, labels = batch
            yield Batch(images.to(torch.float32), labels)


def _chain(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
