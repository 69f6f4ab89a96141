import sys

import pytest
import torch
from sklearn.datasets import load_digits

from ftbnn.data import load
from ftbnn.errors import UserError


def test_the_split_is_stratified():
    source = load("digits")
    assert source.train.images.shape == (1500, 1, 8, 8)
    assert source.test.images.shape == (297, 1, 8, 8)
    assert source.train.images.dtype == torch.uint8
    assert source.train.labels.dtype == torch.int64
    assert set(source.test.labels.bincount().tolist()) == {29, 30}


def test_the_split_follows_its_rule():
    """The rule in plain words: walk through the classes and let every 1797 / 297 th image be a test image."""
    values, labels = load_digits(return_X_y=True)
    walk = [index for k in range(10) for index in range(1797) if labels[index] == k]
    chosen = sorted(index for j, index in enumerate(walk) if (j + 1) * 297 // 1797 > j * 297 // 1797)
    test = load("digits").test
    assert test.labels.tolist() == [labels[index] for index in chosen]
    assert test.images[5].flatten().tolist() == [round(value * 255 / 16) for value in values[chosen[5]]]


def test_no_test_image_is_a_training_image():
    source = load("digits")
    rows = torch.cat([source.train.images, source.test.images]).flatten(1)
    assert len(torch.unique(rows, dim=0)) == 1797


def test_the_facts_hold():
    source = load("digits", None, image_size=8)
    pixels = source.train.images.double() / 255
    assert source.train.images.max() == 255
    assert pixels.mean().item() == pytest.approx(source.spec.mean[0], abs=1e-4)
    assert pixels.std().item() == pytest.approx(source.spec.std[0], abs=1e-4)
    assert source.spec.augment == "none"


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UserError, match="pip install scikit-learn"):
        load("digits")
