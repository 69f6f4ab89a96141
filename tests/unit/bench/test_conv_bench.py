import json

import pytest

from ftbnn import _native
from ftbnn.bench import loops
from ftbnn.bench.conv import LAYERS, Layer, measure
from ftbnn.cli.main import main
from ftbnn.errors import UserError
from ftbnn.nn import PlainStem, ProjectionReduction

ISAS = _native.capabilities()["isas"]

TINY = (
    Layer("1x1", False, lambda: ProjectionReduction(4, act="relu", follows_relu=False), (4, 8, 8), "shortcut.1"),
    Layer("stem", False, lambda: PlainStem(3, 4), (3, 16, 16), "conv"),
)


def test_a_row_for_each_layer_and_isa():
    rows = measure(ISAS, rounds=1, layers=TINY)
    assert [(row["name"], row["isa"]) for row in rows] == [(layer.name, isa) for layer in TINY for isa in ISAS]
    for row in rows:
        assert 0 < row["min_ms"] <= row["median_ms"]
        assert row["gmacs_per_s"] > 0
        assert (row["share_of_roof"] is None) == (row["roof"] is None)


def test_loops(capsys):
    """The roof is among the loops, and every loop runs."""
    assert main(["bench", "loops", "--rounds", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert _native.bench.roof(_native.capabilities()["isa"], True)[0] in [loop["instructions"] for loop in found]
    assert all(loop["gmacs_per_s"] > 0 for loop in found)
    assert main(["bench", "loops", "--rounds", "0"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_json(capsys):
    assert main(["bench", "conv", "--rounds", "1", "--isa", ISAS[0], "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [layer.name for layer in LAYERS]
    assert [row["precision"] for row in rows] == ["binary"] * 6 + ["fp32"] * 2


def test_table(capsys):
    assert main(["bench", "conv", "--rounds", "1", "--isa", "portable"]) == 0
    assert "3x3 64 @ 56" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--isa", "sse9"]], ids=" ".join)
def test_mistakes_are_one_line(wrong, capsys):
    assert main(["bench", "conv", *wrong]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_build_without_the_loops_says_what_to_do(monkeypatch):
    """As wheels are built."""
    monkeypatch.delattr(_native, "bench")
    for measured in (lambda: loops.measure(rounds=1), lambda: measure(["portable"], rounds=1, layers=TINY)):
        with pytest.raises(UserError, match="FTBNN_BENCH=ON"):
            measured()
