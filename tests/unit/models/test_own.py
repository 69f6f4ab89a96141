import sys

import pytest

from ftbnn.cli.main import main
from ftbnn.errors import UserError
from ftbnn.models.own import load_own
from ftbnn.nn import method_named
from ftbnn.own import is_own

SOURCE = """
from torch import nn

def tiny(classes=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, classes))

def broken():
    raise RuntimeError("no such luck")

def number():
    return 3
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(SOURCE)
    return str(path)


def test_builds_from_a_file_with_the_settings_it_takes(source):
    assert is_own(f"{source}:tiny")
    assert load_own(f"{source}:tiny", classes=7, width=None)[1].out_features == 7
    assert load_own("torch.nn:Identity").training


def test_it_imports_what_lies_beside_it(tmp_path, monkeypatch):
    (tmp_path / "beside_it.py").write_text("from torch import nn\nBlock = nn.ReLU\n")
    (tmp_path / "in_here.py").write_text("import beside_it\nNet = beside_it.Block\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_own(f"{tmp_path / 'in_here.py'}:Net").training
    monkeypatch.chdir(tmp_path)
    assert load_own("beside_it:Block").training


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("{}", "FACTORY"),
        ("{}:tinny", "tiny"),
        ("{}:broken", "no such luck"),
        ("{}:number", "int, not an nn.Module"),
        ("zoo:digits", r"a trained file, not a network to build: that is ftbnn18. predict, .*pretrained='digits'"),
        ("zoo:digit", "unknown zoo network 'digit'"),
        ("missing.py:tiny", "cannot read missing.py"),
        ("no_such_package:tiny", "cannot import"),
    ],
)
def test_mistakes_are_one_line(source, what, message):
    with pytest.raises(UserError, match=message) as caught:
        load_own(what.format(source))
    assert "\n" not in str(caught.value)


def test_a_setting_the_factory_does_not_take_is_named(source):
    with pytest.raises(UserError, match="no parameter 'width'"):
        load_own(f"{source}:tiny", width=3)


METHOD = """
from torch import Tensor
from ftbnn.nn import Method, Signs

class MedianScaled(Signs):
    def scale(self, latent: Tensor) -> Tensor:
        return latent.abs().flatten(1).median(dim=1).values

median = Method("scaled by median magnitudes", signs=MedianScaled, act="prelu")
"""


def test_a_method_of_a_file_stands_where_a_name_may(tmp_path, monkeypatch):
    (tmp_path / "own_row.py").write_text(METHOD)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    assert method_named("own_row.py:median").act == "prelu"
    assert method_named("own_row:median").act == "prelu"
    for name, message in (
        ("own_row.py:medain", "unknown method in own_row.py 'medain'; did you mean median"),
        ("own_row.py", "say which method of own_row.py is meant: own_row.py:METHOD"),
        ("own_row.py:MedianScaled", "did you mean median"),
        ("lost.py:median", "cannot read lost.py"),
    ):
        with pytest.raises(UserError, match=message):
            method_named(name)


def test_a_run_keeps_where_its_method_is(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_row.py").write_text(METHOD)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    words = ["train", "ftbnn18", "--width", "4", "--method", "own_row.py:median", "--set", "epochs=1", "--out", "run"]
    assert main(words) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["train", "--resume", "--out", "../run", "--method", "../own_row.py:median"]) == 0
    assert main(["export", "../run", "-o", "own.ftbnn"]) == 0
    (tmp_path / "own_row.py").unlink()
    capsys.readouterr()
    assert main(["eval", "../run"]) == 2
    assert "own_row.py, which is not there" in capsys.readouterr().err
