"""A user's own data: data sets or DataLoaders, alone or as (train, test) or (train, validation, test)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from ftbnn.data.batches import Batch, derive_seed, drawing_from, raised, single
from ftbnn.data.source import Source
from ftbnn.errors import UserError

WANTED = "give a data set's name, a data set or DataLoader, or (train, test) or (train, validation, test) of them"


def source_of_own(data: Any) -> Source:
    """The splits of a user's data; training images alone are fine."""
    splits = data if isinstance(data, tuple) else (data,)
    if not 1 <= len(splits) <= 3:
        raise UserError(f"{WANTED}, not {len(splits)} of them")
    train, *others = splits
    for split in (train, *(split for split in others if split is not None)):
        _check(split)
    val, test = others if len(others) == 2 else (None, others[0] if others else None)
    if len({isinstance(split, DataLoader) for split in splits if split is not None}) > 1:
        raise UserError("give data sets or DataLoaders, not some of each")
    return Source(None, train, test=test, val=val)


def _check(split: Any) -> None:
    if isinstance(split, IterableDataset):  # it has inherited a `__getitem__` that only raises
        raise UserError(f"{type(split).__name__} cannot be asked for an item by its number: wrap it in a DataLoader")
    if isinstance(split, DataLoader):
        len(LoaderBatches(split))  # or it says what is missing
    elif isinstance(split, str) or not hasattr(split, "__getitem__") or not hasattr(split, "__len__"):
        raise UserError(f"{type(split).__name__} is no data set; {WANTED}")


@dataclass(frozen=True)
class LoaderBatches:
    """A DataLoader's batches, as many as its length says. What it draws at random in this process is a function of
    (seed, epoch, step), so that a resumed run, which goes through the steps before again, sees the same."""

    loader: "DataLoader[Any]"
    seed: int = 0
    spec: None = None

    def __len__(self) -> int:
        try:
            return len(self.loader)
        except TypeError:
            raise UserError("a DataLoader needs a length: give its IterableDataset a __len__") from None

    @property
    def images(self) -> int:
        try:
            return len(self.loader.dataset)  # type: ignore[arg-type]
        except TypeError:
            return len(self) * (self.loader.batch_size or 1)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        batches: Iterator[Any] = iter(())
        for step in range(len(self)):
            with drawing_from(derive_seed(self.seed, "loader", epoch, step)):
                try:
                    batches = batches if step else iter(self.loader)
                    batch = next(batches, None)
                except Exception as error:  # whatever a user's data set may raise
                    raise raised("your DataLoader", error) from error
            if batch is None:
                return
            if step >= start:
                yield _checked(batch)


def _checked(batch: Any) -> Batch:
    if not isinstance(batch, tuple | list) or len(batch) != 2 or not all(isinstance(part, Tensor) for part in batch):
        raise UserError("a DataLoader must give (images, labels), two tensors")
    images, labels = batch
    if not images.is_floating_point():
        raise UserError(f"the images of your DataLoader have {images.dtype} values; they must be floats")
    return Batch(images.to(torch.float32), single(labels))
