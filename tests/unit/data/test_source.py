"""The facts of a data set, and the validation split: part of the data, not of a run."""

from dataclasses import asdict, replace

import pytest
import torch
from torch.utils.data import DataLoader

from ftbnn.data import ArraySplit, Source, Spec, load
from ftbnn.data.source import MOST_HELD_OUT
from ftbnn.errors import UserError

SPEC = Spec("made", 3, 1, 8, (0.5,), (0.25,), tuple("abc"))


def source(size, *, val=None):
    split = ArraySplit(torch.zeros(size, 1, 8, 8, dtype=torch.uint8), torch.arange(size))  # the label is the index
    return Source(SPEC, split, test=split, val=val)


def test_images_are_held_out_of_training_once_and_for_all():
    whole = source(50)
    torch.manual_seed(1)
    first = whole.with_validation(0.2)
    torch.manual_seed(2)
    again = whole.with_validation(0.2)
    assert len(first.val) == 10
    assert sorted([*first.val.labels.tolist(), *first.train.labels.tolist()]) == list(range(50))
    assert first.val.labels.tolist() == again.val.labels.tolist()
    assert first.val.labels.tolist() == sorted(first.val.labels.tolist()) != list(range(10)), "in order, from all over"
    assert first.test is whole.test


def test_the_digits_held_out_are_always_the_same():
    """As their labels show: a change here would be another data set under the same name."""
    held = load("digits").with_validation(0.1).val
    assert len(held) == 150
    assert held.labels[:12].tolist() == [0, 7, 5, 0, 8, 1, 6, 3, 7, 2, 2, 9]


def test_a_smaller_share_is_part_of_a_larger_one():
    small, large = (set(source(50).with_validation(share).val.labels.tolist()) for share in (0.1, 0.3))
    assert small < large


def test_nothing_is_held_out_where_there_is_validation_or_none_is_wanted():
    own = ArraySplit(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.arange(2))
    assert source(50, val=own).with_validation(0.5).val is own
    assert source(50).with_validation(0).val is None
    assert source(3).with_validation(0.1).val is None, "less than half an image"
    assert Source(None, DataLoader(range(50))).with_validation(0.5).val is None


def test_large_data_hold_out_no_more_than_enough():
    many = Source(None, range(200_000))
    held = many.with_validation(0.1)
    assert (len(held.train), len(held.val)) == (200_000 - MOST_HELD_OUT, MOST_HELD_OUT)


def test_a_users_data_set_is_split_by_its_indices():
    items = [(torch.zeros(1), k) for k in range(20)]
    held = Source(None, items).with_validation(0.25)
    assert sorted([held.val[k][1] for k in range(5)] + [held.train[k][1] for k in range(15)]) == list(range(20))


def test_a_spec_survives_a_run():
    spec = replace(SPEC, resize=9, augment="crop")
    lists = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(spec).items()}
    assert Spec.from_json(lists) == spec
    assert SPEC.resize == 8, "by default the image's size"


def test_an_older_runs_spec_knows_how_photos_were_cut():
    facts = asdict(SPEC) | {"image_size": 224, "augment": "imagenet", "val_images": 7}
    del facts["resize"]
    assert Spec.from_json(facts).resize == 256
    assert Spec.from_json(facts | {"augment": "none"}).resize == 224


def test_an_empty_split_is_named():
    with pytest.raises(UserError, match="made has no training images"):
        source(0)
