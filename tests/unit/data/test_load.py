from pathlib import Path

import pytest

from ftbnn.data import SOURCES, load
from ftbnn.data.batches import FILE_AUGMENTS
from ftbnn.data.download import INSTEAD, REMOTES
from ftbnn.data.transforms import ARRAY_AUGMENTS
from ftbnn.errors import UserError

IN_MEMORY = [name for name, entry in SOURCES.items() if not entry.needs_dir]


@pytest.mark.parametrize("name", IN_MEMORY)
def test_what_needs_no_directory_loads(name):
    spec = load(name, None).spec
    assert spec.name == name
    assert spec.augment in (*ARRAY_AUGMENTS, *FILE_AUGMENTS)
    assert len(spec.class_names) == spec.classes
    assert len(spec.mean) == len(spec.std) == spec.channels


@pytest.mark.parametrize("name", sorted(set(SOURCES) - set(IN_MEMORY)))
def test_a_directory_is_asked_for(name, tmp_path):
    with pytest.raises(UserError, match=r"lies in a directory .*: say in which \(data_dir\)$"):
        load(name, None)
    with pytest.raises(UserError, match="no directory"):
        load(name, tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"not found in|no folder"):
        load(name, tmp_path)


@pytest.mark.parametrize("name", [name for name, entry in SOURCES.items() if entry.image_size])
def test_a_fixed_image_size_stays(name):
    with pytest.raises(UserError, match=f"images of {name} are .*, not 224"):
        load(name, Path(), image_size=224)


def test_wrong_names_and_sizes(tmp_path):
    with pytest.raises(UserError, match="say which data"):
        load("digits", tmp_path)
    with pytest.raises(UserError, match="cifar10, cifar100"):
        load("cifar", None)
    with pytest.raises(UserError, match="1 or more"):
        load("synthetic", None, image_size=0)


def test_every_source_can_be_downloaded_or_says_why_not():
    assert set(SOURCES) == set(REMOTES) | set(INSTEAD)
    assert not set(REMOTES) & set(INSTEAD)
