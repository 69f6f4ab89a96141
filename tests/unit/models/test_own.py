import sys

import pytest

from ftbnn.errors import UserError
from ftbnn.models.own import is_own, load_own

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
