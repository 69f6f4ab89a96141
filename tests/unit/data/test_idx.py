import gzip

import numpy as np
import pytest
import torch

from ftbnn.data import load
from ftbnn.data.idx import FILES
from ftbnn.errors import UserError

TRAIN, TEST = 12, 5


def idx(array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.astype(np.uint8).tobytes()


def contents(seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(0, 256, (TRAIN, 28, 28)), np.arange(TRAIN) % 10]
    arrays += [rng.integers(0, 256, (TEST, 28, 28)), np.arange(TEST)]
    return dict(zip(FILES, map(idx, arrays), strict=True))


def write(folder, *, ending="", pack=bytes, dotted=False, seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in contents(seed).items():
        spelled = name.replace("-idx", ".idx") if dotted else name
        (folder / f"{spelled}{ending}").write_bytes(pack(data))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("place", ["", "NAME", "NAME/raw"])
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"ending": ".gz", "pack": gzip.compress},
        {"ending": ".gz"},  # a browser that unpacked it and kept the name
        {"dotted": True},
        {"dotted": True, "ending": ".gz", "pack": gzip.compress},
    ],
)
def test_reads_every_layout(tmp_path, name, place, form):
    write(tmp_path / place.replace("NAME", name), **form)
    source = load(name, str(tmp_path))
    assert source.train.images.shape == (TRAIN, 1, 28, 28)
    assert source.train.images.dtype == torch.uint8
    assert source.train.images.numpy().tobytes() == contents()[FILES[0]][16:]
    assert source.test.labels.tolist() == list(range(TEST))
    assert source.test.labels.dtype == torch.int64
    assert len(source.spec.class_names) == source.spec.classes == 10


def test_each_data_set_takes_its_own_folder(tmp_path):
    for seed, folder in enumerate(("mnist", "FashionMNIST/raw")):
        write(tmp_path / folder, seed=seed)
    for seed, name in enumerate(("mnist", "fashion-mnist")):
        assert load(name, tmp_path).test.images.numpy().tobytes() == contents(seed)[FILES[2]][16:]


def test_missing_files_are_named(tmp_path):
    with pytest.raises(UserError, match=f"{FILES[0]}.*{FILES[3]}.*not found in {tmp_path}.*ftbnn data mnist"):
        load("mnist", tmp_path)
    write(tmp_path / "mnist")
    (tmp_path / "mnist" / FILES[2]).unlink()
    with pytest.raises(UserError, match=f"^mnist: {FILES[2]}.gz not found in {tmp_path / 'mnist'};"):
        load("mnist", tmp_path)


PACKED = gzip.compress(contents()[FILES[0]])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (b"", "not an idx file"),
        (b"<html>not found</html>", "not an idx file"),
        (b"\0\0\x0d\x03" + contents()[FILES[0]][4:], "not an idx file"),
        (contents()[FILES[1]], "not an idx file"),
        (contents()[FILES[0]][:-1], "truncated"),
        (contents()[FILES[0]] + b"x", "longer"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "broken header"),
        (idx(np.zeros((TRAIN, 28, 27))), "28x27"),
        (idx(np.zeros((TRAIN + 1, 28, 28))), "13 train images but .* 12 labels"),
        (PACKED[: len(PACKED) // 2], "cannot be read"),
        (PACKED[:40] + b"\xff" * 40 + PACKED[80:], "cannot be read|truncated"),
        (b"\x1f\x8b", "cannot be read"),
    ],
)
def test_a_broken_file_is_one_line_with_its_path(tmp_path, broken, message):
    write(tmp_path)
    (tmp_path / FILES[0]).write_bytes(broken)
    with pytest.raises(UserError, match=message) as caught:
        load("mnist", tmp_path)
    assert str(tmp_path / FILES[0]) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_label_out_of_range(tmp_path):
    write(tmp_path)
    (tmp_path / FILES[3]).write_bytes(idx(np.array([1, 2, 10, 3, 4])))
    with pytest.raises(UserError, match=f"{FILES[3]}: label 10"):
        load("mnist", tmp_path)
