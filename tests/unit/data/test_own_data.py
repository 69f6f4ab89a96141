"""A user's own data: what is taken, what is refused in one line, and that a DataLoader's epochs repeat."""

import random
import re

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from ftbnn.data import load, source_of
from ftbnn.data.batches import Batches
from ftbnn.data.own import LoaderBatches
from ftbnn.errors import UserError

ITEMS = [(torch.full((1, 2, 2), float(k)), k % 3) for k in range(10)]


class Noisy(Dataset):
    """Draws from every global generator for each item."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        noise = [random.random(), float(np.random.rand()), float(torch.rand(()))]  # noqa: NPY002
        return torch.tensor([float(index), *noise]), index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(ITEMS)


class Endless(IterableDataset):
    """Never ends; its length says what an epoch is."""

    def __len__(self):
        return 6

    def __iter__(self):
        while True:
            yield ITEMS[0]


class Broken(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise KeyError("no such image")


A, B, C = ITEMS[:3], ITEMS[3:5], ITEMS[5:]


@pytest.mark.parametrize(
    ("data", "splits"),
    [
        (A, (A, None, None)),
        ((A, C), (A, None, C)),
        ((A, B, C), (A, B, C)),
        ((A, B, None), (A, B, None)),
    ],
)
def test_one_two_or_three_splits(data, splits):
    source = source_of(data)
    assert (source.train, source.val, source.test) == splits
    assert source.spec is None


def test_a_name_and_a_source():
    assert source_of("digits").spec.name == "digits"
    source = load("digits")
    assert source_of(source) is source


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((), "not 0 of them"),
        ((ITEMS,) * 4, "not 4 of them"),
        (7, "int is no data set; give"),
        (None, "NoneType is no data set; give"),
        ((None, ITEMS), "NoneType is no data set; give"),
        (("digits", "digits"), "str is no data set"),
        (DataLoader(Stream()), "give its IterableDataset a __len__"),
        (Stream(), "Stream cannot be asked .*: wrap it in a DataLoader"),
        ((ITEMS, DataLoader(ITEMS)), "not some of each"),
        ([], "no training images"),
        ((ITEMS, []), "no test images"),
        ("digist", "digits"),
        ("mnist", r"mnist lies in a directory: give ftbnn.data.load\('mnist', data_dir\)"),
    ],
)
def test_what_is_no_data_is_one_clear_line(data, message):
    with pytest.raises(UserError, match=message) as caught:
        source_of(data)
    assert "\n" not in str(caught.value)


def epoch(loader, number=0, start=0, seed=0):
    return [(b.images.tolist(), b.labels.tolist()) for b in LoaderBatches(loader, seed).epoch(number, start)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_epoch_of_a_loader_is_the_rest_of_the_whole_one(workers):
    loader = DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=workers)
    torch.manual_seed(1)
    whole = epoch(loader, 2)
    torch.manual_seed(2)
    assert epoch(loader, 2, start=2) == whole[2:]
    assert epoch(loader, 3) != whole
    assert epoch(loader, 2, seed=1) != whole


def test_a_loader_leaves_the_global_generators_alone():
    def draw():
        return torch.rand(2).tolist(), random.random(), np.random.rand()  # noqa: NPY002

    torch.manual_seed(3), random.seed(3), np.random.seed(3)  # noqa: NPY002
    expected = draw()
    torch.manual_seed(3), random.seed(3), np.random.seed(3)  # noqa: NPY002
    batches = LoaderBatches(DataLoader(Noisy(), batch_size=3, shuffle=True)).epoch(0)
    next(batches), next(batches)
    assert draw() == expected


def test_a_stream_with_a_length_has_epochs():
    batches = LoaderBatches(DataLoader(Endless(), batch_size=4))
    assert len(batches) == 2
    assert batches.images == 6
    assert len(list(batches.epoch(0))) == 2, "as many as its length says"
    assert len(epoch(DataLoader(ITEMS, batch_size=3, drop_last=True))) == 3


def one_batch(images, labels):
    return DataLoader(TensorDataset(images, labels), batch_size=2)


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (DataLoader(Broken()), r"your DataLoader raises KeyError: 'no such image' \(test_own_data.py, line"),
        (DataLoader(Broken(), num_workers=1), r"your DataLoader raises KeyError: 'no such image' \(in a worker"),
        (DataLoader([{"image": torch.zeros(1)}]), r"\(images, labels\), two tensors"),
        (DataLoader([("a", 1)]), "two tensors"),
        (one_batch(torch.zeros(4, 1, dtype=torch.uint8), torch.zeros(4)), "torch.uint8 values; they must be floats"),
    ],
)
def test_a_loaders_mistakes_are_one_clear_line(loader, message):
    with pytest.raises(UserError, match=message) as caught:
        epoch(loader)
    assert "\n" not in str(caught.value)


def test_an_item_is_named_by_its_own_number_wherever_it_was_put():
    """Held out for validation, or left for training: each item says in what it raises, or in its label, which it is."""

    class Raising(Broken):
        def __getitem__(self, index):
            raise OSError(f"it is {index}")

    for items in (Raising(), [(torch.zeros(1), f"it is {k}") for k in range(4)]):
        source = source_of(items).with_validation(0.5)
        for split in (source.train, source.val):
            with pytest.raises(UserError) as caught:
                list(Batches(split, batch_size=1, shuffle=False).epoch(0))
            named, own = (re.search(words, str(caught.value))[1] for words in (r"item (\d)", r"it is (\d)"))
            assert named == own
