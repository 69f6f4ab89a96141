import json

import pytest
from torch import nn

from ftbnn.data import load
from ftbnn.experiments import latencies
from ftbnn.experiments.latencies import machines, times
from ftbnn.experiments.queue import Request
from ftbnn.experiments.result import FILE, Findings, Table, write
from ftbnn.machine import capabilities

ELSEWHERE = {"cpu": "another CPU", "isa": "avx9", "image": [1, 8, 8], "classes": 10, "width": 4}


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


@pytest.fixture
def request_(tmp_path):
    return Request(
        what="methods", scale="quick", out=tmp_path, source=load("digits"), width=4, epochs=1, seeds=1, budget_m=1.0
    )


@pytest.fixture
def measured(monkeypatch):
    """The names of each measuring, which take no time here."""
    goes = []

    def interleave(contenders, *, rounds):
        goes.append([one.name for one in contenders])
        for one in contenders:
            assert one.call().shape == (1, 10)
        return [{"name": one.name, "min_ms": rounds / 8} for one in contenders]

    monkeypatch.setattr(latencies, "interleave", interleave)
    return goes


def keep(request, rows):
    facts = {"what": request.what, "title": ""}
    write(request.out, facts, Findings([Table("methods", "", (), rows)]), [])


def test_all_are_measured_in_one_go_on_this_machine(request_, measured):
    timed = times(request_, "methods", {"a": network, "b": network})
    assert measured == [["a", "b"]]
    known = capabilities()
    here = ELSEWHERE | {"cpu": known["cpu"], "isa": known["isa"]}
    assert timed == {name: {"ms": latencies.ROUNDS / 8, "measured_on": here} for name in "ab"}
    assert machines(timed) == f"{known['cpu']}, {known['isa']}"


def test_what_stands_in_the_result_stays_whatever_machine_it_is_of(request_, measured):
    keep(request_, [{"method": name, "ms": 0.5, "measured_on": ELSEWHERE} for name in ("a", "a, its own recipe", "b")])
    timed = times(request_, "methods", {"a": network, "b": network})
    assert not measured
    assert timed == {name: {"ms": 0.5, "measured_on": ELSEWHERE} for name in "ab"}
    assert machines(timed) == "another CPU, avx9"


def test_a_new_row_has_all_measured_anew_and_says_so(request_, measured, capsys):
    keep(request_, [{"method": "a", "ms": 0.5, "measured_on": ELSEWHERE}])
    timed = times(request_, "methods", {"a": network, "b": network})
    assert measured == [["a", "b"]]
    assert timed["a"] != {"ms": 0.5, "measured_on": ELSEWHERE}
    assert "timed anew" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rows",
    [
        [{"method": "a", "top1": 50.0}],  # a result from before there were times
        [{"method": "a", "ms": 0.5, "measured_on": ELSEWHERE | {"width": 16}}],
        [{"method": "a", "ms": 0.5, "measured_on": ELSEWHERE | {"image": [3, 32, 32]}}],
    ],
)
def test_times_that_are_not_of_these_networks_do_not_count(rows, request_, measured, capsys):
    keep(request_, rows)
    assert times(request_, "methods", {"a": network})["a"]["ms"] == latencies.ROUNDS / 8
    assert measured == [["a"]]
    assert capsys.readouterr().err == ""
    assert json.loads((request_.out / FILE).read_text())["tables"][0]["rows"] == rows, "written by who shows them"
