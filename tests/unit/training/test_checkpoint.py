import errno
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from ftbnn import files
from ftbnn.errors import UserError
from ftbnn.files import MAGIC
from ftbnn.training import checkpoint


def test_round_trip(tmp_path):
    path = tmp_path / "a.pt"
    checkpoint.save(path, {"x": torch.arange(3), "nested": {"list": [1, "two", 3.0, None]}})
    state = checkpoint.load(path)
    assert torch.equal(state["x"], torch.arange(3))
    assert state["nested"] == {"list": [1, "two", 3.0, None]}
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_rest(tmp_path, monkeypatch, code):
    path = tmp_path / "last.pt"
    checkpoint.save(path, {"x": 1})

    def full(_: int) -> None:
        raise OSError(code, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(UserError, match=r"disk is full.*intact.*resume it"):
        checkpoint.save(path, {"x": 2})
    monkeypatch.undo()
    assert checkpoint.load(path)["x"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["last.pt"]


class Evil:
    def __reduce__(self):
        return Path.touch, (Path("evil"),)


def test_a_file_that_would_run_code_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"version": 1, "x": Evil()}, "evil.pt")
    Path("plain.pt").write_bytes(pickle.dumps(Evil()))
    for name in ("evil.pt", "plain.pt"):
        with pytest.raises(UserError, match="more than data"):
            checkpoint.load(Path(name))
    assert not Path("evil").exists()


def test_broken_missing_and_foreign_files_are_one_line(tmp_path):
    good = tmp_path / "good.pt"
    checkpoint.save(good, {"x": torch.zeros(1000)})
    data = good.read_bytes()
    for cut in (0, 1, 100, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.pt").write_bytes(data[:cut])
        with pytest.raises(UserError) as caught:
            checkpoint.load(tmp_path / "cut.pt")
        assert "\n" not in str(caught.value)
    (tmp_path / "net.bin").write_bytes(MAGIC)
    with pytest.raises(UserError, match="is a packed file, not a checkpoint"):
        checkpoint.load(tmp_path / "net.bin")
    with pytest.raises(UserError, match="no checkpoint at"):
        checkpoint.load(tmp_path / "none.pt")
    torch.save({"weights": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(UserError, match="not a checkpoint of ftbnn"):
        checkpoint.load(tmp_path / "other.pt")
    torch.save({"version": 99}, tmp_path / "later.pt")
    with pytest.raises(UserError, match="version 99"):
        checkpoint.load(tmp_path / "later.pt")


def test_all_generators_are_restored(tmp_path):
    path = tmp_path / "random.pt"
    random.random(), np.random.rand(), torch.rand(1)  # noqa: NPY002
    random.gauss(0, 1), np.random.randn()  # noqa: NPY002
    checkpoint.save(path, {"random": checkpoint.random_state()})

    def draw():
        return random.random(), random.gauss(0, 1), np.random.randn(), torch.rand(3).tolist()  # noqa: NPY002

    first = draw()
    draw()
    checkpoint.restore_random_state(checkpoint.load(path)["random"])
    assert draw() == first
