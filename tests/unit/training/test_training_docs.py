"""docs/training.md has every setting."""

import dataclasses
from pathlib import Path

import pytest

from ftbnn.training import Options, Recipe

TEXT = (Path(__file__).parents[3] / "docs" / "training.md").read_text()


@pytest.mark.parametrize("name", [field.name for kind in (Recipe, Options) for field in dataclasses.fields(kind)])
def test_every_setting_is_explained(name):
    assert f"`{name}`" in TEXT
