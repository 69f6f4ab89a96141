import io
import tarfile

import numpy as np
import pytest
import torch

from ftbnn.data import cifar, load
from ftbnn.errors import UserError

LAYOUTS = [cifar.CIFAR10, cifar.CIFAR100]
PER_FILE = 3


def record_bytes(layout):
    return layout.label_bytes + 3072


def contents(layout):
    """Small files of the official form; the coarse labels of CIFAR-100 are out of the way at 255."""
    rng = np.random.default_rng(0)
    files = {layout.names: "\n".join(f"name{k}" for k in range(layout.classes)).encode() + b"\n\n"}
    for file in layout.train + layout.test:
        records = rng.integers(0, 256, (PER_FILE, record_bytes(layout)), dtype=np.uint8)
        records[:, : layout.label_bytes] = 255
        records[:, layout.label_bytes - 1] = layout.classes - 1 - np.arange(PER_FILE)
        files[file] = records.tobytes()
    return files


def write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def pack(path, files, *, folder):
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("place", ["dir", "subfolder", "archive"])
def test_reads_every_layout(tmp_path, layout, place):
    files = contents(layout)
    if place == "archive":
        pack(tmp_path / layout.archive, files, folder=layout.folder)
    else:
        write(tmp_path / layout.folder if place == "subfolder" else tmp_path, files)
    source = load(layout.name, tmp_path)
    assert source.train.images.shape == (PER_FILE * len(layout.train), 3, 32, 32)
    assert source.train.images.dtype == torch.uint8
    assert source.test.images[0].numpy().tobytes() == files[layout.test[0]][layout.label_bytes : record_bytes(layout)]
    assert source.test.labels.tolist() == [layout.classes - 1 - k for k in range(PER_FILE)]
    assert source.spec.class_names[3] == "name3"
    assert source.spec.augment == "crop-flip"


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_missing_files_are_named(tmp_path, layout):
    with pytest.raises(UserError, match=f"{layout.test[0]}.*{layout.archive}.*ftbnn data {layout.name}"):
        load(layout.name, tmp_path)
    write(tmp_path, contents(layout))
    (tmp_path / layout.test[0]).unlink()
    with pytest.raises(UserError, match=f"^{layout.name}: {layout.test[0]} not found in {tmp_path},"):
        load(layout.name, tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda _: b"", "0 bytes"),
        (lambda data: data[:-1], "whole records"),
        (lambda data: data + b"x", "whole records"),
        (lambda data: b"\xff\xff" + data[2:], "label 255"),
    ],
)
def test_a_broken_file_is_one_line_with_its_path(tmp_path, layout, damage, message):
    files = contents(layout)
    write(tmp_path, files | {layout.test[0]: damage(files[layout.test[0]])})
    with pytest.raises(UserError, match=message) as caught:
        load(layout.name, tmp_path)
    assert str(tmp_path / layout.test[0]) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_short_list_of_class_names(tmp_path):
    write(tmp_path, contents(cifar.CIFAR10) | {"batches.meta.txt": b"cat\ndog\n"})
    with pytest.raises(UserError, match="2 class names instead of 10"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda _: b"<html>", lambda _: b""])
def test_a_broken_archive(tmp_path, damage):
    path = tmp_path / cifar.CIFAR10.archive
    pack(path, contents(cifar.CIFAR10), folder=cifar.CIFAR10.folder)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=f"{path}: .*download it again") as caught:
        load("cifar10", tmp_path)
    assert "\n" not in str(caught.value)


def test_an_archive_is_never_unpacked_to_disk_and_links_are_not_followed(tmp_path):
    layout = cifar.CIFAR10
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    files = contents(layout)
    del files["test_batch.bin"]
    pack(data_dir / layout.archive, files | {"../../escaped": b"x"}, folder=layout.folder)
    with pytest.raises(UserError, match=r"test_batch\.bin not in it"):
        load("cifar10", data_dir)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [layout.archive]


def test_an_archive_member_that_would_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "MOST_BYTES", 1000)
    pack(tmp_path / cifar.CIFAR10.archive, contents(cifar.CIFAR10), folder=cifar.CIFAR10.folder)
    with pytest.raises(UserError, match="far too large"):
        load("cifar10", tmp_path)
