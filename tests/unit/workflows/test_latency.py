"""Latencies from a table of layer costs. What is predicted is compared with itself, never with a clock."""

import json

import pytest

from ftbnn.cli.main import main
from ftbnn.errors import UserError
from ftbnn.workflows import costs
from ftbnn.workflows.costs import CostTable, Parts, parts_of
from ftbnn.workflows.latency import widest_within

SMALL = {"threads": 1, "shape": (3, 32, 32), "classes": 10}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "PROBES", (8, 16, 24))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ftbnn"


def filled(folder, groups=(1,)):
    table = CostTable(**SMALL, folder=folder)
    table.measure(groups, up_to=1e9, layers=18)
    return table


def test_a_network_is_the_sum_of_its_parts():
    times = {"": 1.0, "stem.conv": 2.0, "bridge.conv": 3.0, "fc": 4.0, "pool": 5.0}
    for stage in range(1, 5):
        times |= {f"stage{stage}.0.shortcut": 10.0, f"stage{stage}.0.conv": 20.0}
        times |= {f"stage{stage}.{block}.conv": 100.0 * stage for block in range(1, 4)}
    parts = parts_of(times)
    assert parts == Parts(6.0, (30.0,) * 4, (100.0, 200.0, 300.0, 400.0), 9.0)
    assert parts.total(18) == sum(times.values())
    assert parts.total(34) == 15 + 120 + 500 + 1400 + 3300 + 2000


def test_between_probes_it_rises_from_one_to_the_other(folder):
    table = filled(folder)
    for k, v in enumerate((8, 16, 24), start=1):
        table.rows[f"g1-v{v}"] = [float(k)] * 10
    sums = [table.predict(18, 1, v) for v in range(8, 25)]
    assert sums == sorted(sums)
    assert sums[0] == pytest.approx(18)
    assert sums[8] == pytest.approx(36)
    assert sums[-1] == pytest.approx(54)


def test_the_table_is_kept_and_measured_once(folder, monkeypatch):
    first = filled(folder)
    monkeypatch.setattr(costs, "engine_of", None)  # nothing is measured any more
    assert filled(folder).rows == first.rows
    assert len(first.rows) == 3


def test_a_table_of_another_machine_is_noticed(folder):
    path = filled(folder).path
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"machine": {"cpu": "another"}}))
    table = CostTable(**SMALL, folder=folder)
    assert table.is_of_another_machine
    assert table.rows == {}
    path.write_text("{half")
    assert CostTable(**SMALL, folder=folder).rows == {}
    said = []
    widest_within(1e9, layers=(18,), groups=(1,), **SMALL, folder=folder, say=said.append)
    assert "measured anew" in said[0]


def test_an_interrupted_measurement_leaves_whole_rows(folder, monkeypatch):
    calls = []

    def interrupted(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*given)

    real = costs.engine_of
    monkeypatch.setattr(costs, "engine_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        filled(folder)
    table = CostTable(**SMALL, folder=folder)
    assert [len(row) for row in table.rows.values()] == [10]


@pytest.mark.usefixtures("folder")
def test_the_least_reachable_latency_is_said(capsys):
    words = ["design", "--layers", "18", "--groups", "1", "--image-size", "32", "--classes", "10"]
    assert main([*words, "--latency", "0.00001"]) == 2
    assert "the least reachable is about" in capsys.readouterr().err
    assert main([*words, "--latency", "-1"]) == 2
    assert "above 0" in capsys.readouterr().err
    with pytest.raises(UserError, match="18, 34, 44 layers, not of 20"):
        widest_within(1.0, layers=(20,), **SMALL)


@pytest.mark.usefixtures("folder")
def test_the_widest_network_within_a_latency(capsys):
    words = ["design", "--layers", "18", "--groups", "1", "--image-size", "32", "--classes", "10", "--json"]
    assert main([*words, "--latency", "1e9"]) == 0
    (network,) = json.loads(capsys.readouterr().out)["networks"]
    assert network["model"] == "ftbnn-d18-g1-v24"  # as wide as the table goes
    assert network["measured_ms"] > 0


def test_layers_by_budget_and_by_time(capsys):
    words = ["budget", "ftbnn18", "--width", "4", "--image-size", "32", "--stem", "small", "--measure", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(row["budget_share"] for row in found["layers"]) == pytest.approx(1)
    assert found["ms"] == pytest.approx(sum(row["ms"] for row in found["layers"]))
    assert "stage4.3.conv" in [row["path"] for row in found["layers"]]
