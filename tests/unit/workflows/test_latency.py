"""Latencies from a table of layer costs. What is predicted is compared with itself, never with a clock."""

import json
from dataclasses import dataclass

import pytest
from torch import nn

from ftbnn.cli.main import main
from ftbnn.errors import UserError
from ftbnn.experiments.budgets import PRINTED
from ftbnn.experiments.predictions import verdict
from ftbnn.workflows import costs, latency, timing
from ftbnn.workflows.costs import CostTable, Parts, parts_of
from ftbnn.workflows.latency import widest_within

SMALL = {"threads": 1, "shape": (3, 32, 32), "classes": 10}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "PROBES", (8, 16, 24))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ftbnn"


@dataclass
class Fake:
    """An engine that takes as long as `jagged` says, part by part."""

    network: nn.Module

    def times(self) -> dict[str, float]:
        stages = {name: stage for name, stage in self.network.named_children() if name.startswith("stage")}
        blocks = {f"{name}.{k}.conv": 1.0 for name, stage in stages.items() for k in range(len(stage))}
        ends = {f"{name}.{len(stage) - 1}.conv": 2.0 for name, stage in stages.items()}
        scale = jagged(self.network.fc.in_features // 16)
        return {path: scale * ms for path, ms in ({"stem.conv": 5.0, "fc": 1.0} | blocks | ends).items()}


def jagged(v):
    """Every fourth width is faster than the one below it."""
    return v if v % 4 else 0.8 * v


@pytest.fixture
def faked(monkeypatch, folder):  # noqa: ARG001
    """Nothing is timed, and what is made is noted: blocks of a stage, width."""
    made = []

    def engine_of(network, *_):
        made.append((len(network.stage1), network.fc.in_features // 16))
        return Fake(network)

    for module in (costs, latency):
        monkeypatch.setattr(module, "engine_of", engine_of)
        monkeypatch.setattr(module, "measured_ms", lambda model: sum(model.times().values()))
    monkeypatch.setattr(costs, "layer_times", lambda model: {path: ms / 2 for path, ms in model.times().items()})
    return made


def filled(folder, groups=(1,)):
    table = CostTable(**SMALL, folder=folder)
    table.survey(groups, up_to=1e9, layers=18)
    return table


def test_a_network_is_the_sum_of_its_parts():
    times = {"": 1.0, "stem.conv": 2.0, "bridge.conv": 3.0, "fc": 4.0, "pool": 5.0}
    for stage in range(1, 5):
        times |= {f"stage{stage}.0.shortcut": 10.0, f"stage{stage}.0.conv": 20.0}
        times |= {f"stage{stage}.1.conv": 100.0 * stage, f"stage{stage}.2.conv": 7.0}
    parts = parts_of(times)
    assert parts == Parts(6.0, (30.0,) * 4, (100.0, 200.0, 300.0, 400.0), (7.0,) * 4, 9.0)
    assert Parts.of(parts.numbers()) == parts
    assert parts.total(18) == 15 + 120 + 2 * 1000 + 28
    assert parts.total(34) == 15 + 120 + 400 + 1200 + 3000 + 1600 + 28


@pytest.mark.usefixtures("faked")
def test_between_probes_it_rises_from_one_to_the_other(folder):
    table = filled(folder)
    for k, v in enumerate((8, 16, 24), start=1):
        table.rows[f"g1-v{v}"] = [float(k)] * 14
    sums = [table.predict(18, 1, v) for v in range(8, 25)]
    assert sums == sorted(sums)
    assert sums[0] == pytest.approx(18)
    assert sums[8] == pytest.approx(36)
    assert sums[-1] == pytest.approx(54)


def test_probes_have_one_part_of_each_kind(folder, faked):
    table = filled(folder)
    assert faked == [(3, 8), (3, 16), (3, 24)]
    whole = sum(Fake(table.network(18, 1, 8)).times().values())
    assert table.row(1, 8).total(18) == pytest.approx(whole)  # of a call, of which the operators are but half


def test_the_table_is_kept_and_measured_once(folder, faked):
    first = filled(folder)
    faked.clear()
    again = filled(folder)
    assert again.rows == first.rows
    assert len(first.rows) == 3
    again.measure([(1, 8), (1, 9), (1, 9)])
    assert faked == [(3, 9)]  # what is missing, once


@pytest.mark.usefixtures("faked")
def test_two_that_measure_at_once_keep_the_rows_of_both(folder):
    first, second = (CostTable(**SMALL, folder=folder) for _ in "ab")
    first.row(1, 8)
    second.row(1, 12)
    assert set(CostTable(**SMALL, folder=folder).rows) == {"g1-v8", "g1-v12"}


@pytest.mark.usefixtures("faked")
def test_a_table_of_another_machine_is_noticed(folder):
    path = filled(folder).path
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"machine": kept["machine"] | {"engine": "another"}}))
    table = CostTable(**SMALL, folder=folder)
    assert table.is_of_another_machine
    assert table.rows == {}
    for text in ("{half", json.dumps(kept | {"rows": {"g1-v8": [1.0] * 10}})):
        path.write_text(text)
        table = CostTable(**SMALL, folder=folder)
        assert table.is_of_another_machine
        assert table.rows == {}
    said = []
    widest_within(1e9, layers=(18,), groups=(1,), **SMALL, folder=folder, say=said.append)
    assert "measured anew" in said[0]


@pytest.mark.usefixtures("faked")
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
    assert [len(row) for row in table.rows.values()] == [14]


def test_a_width_that_is_faster_than_its_neighbours_is_found(folder, faked):
    limit = sum(Fake(CostTable(**SMALL, folder=folder).network(34, 1, 20)).times().values())
    (found,) = widest_within(1.01 * limit, layers=(34,), groups=(1,), **SMALL, folder=folder)
    assert found.v == 20  # as fast as v = 16 would be, were it not faster itself
    assert found.error == pytest.approx(0)
    assert [v for blocks, v in faked if blocks == 6] == [20]  # of whole networks only the one


def test_a_slow_moment_is_measured_again():
    given = iter([{"a": 3.0, "b": 3.0}, {"a": 2.0, "b": 4.0}, {"a": 2.0, "b": 2.99}, {"a": 0.0, "b": 0.0}])
    assert timing._settled(lambda: next(given)) == {"a": 2.0, "b": 2.99}


def test_predictions_for_the_papers_networks(tmp_path, faked, capsys):
    assert main(["design", "--check", "--json", "--report", str(tmp_path / "report")]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)["networks"]
    assert [row["model"] for row in rows] == [row.model for row in PRINTED]
    assert all(row["error"] == pytest.approx(0) for row in rows)
    assert "20 of 20 within 10%; the worst is ftbnn-d" in err
    assert sum(blocks == 3 for blocks, _ in faked) == 20  # none is predicted from itself
    assert json.loads((tmp_path / "report" / "predictions.json").read_text())["rows"] == rows
    assert "20 of 20 within 10%" in (tmp_path / "report" / "README.md").read_text()


def test_the_verdict_names_the_worst():
    rows = [{"model": "a", "error": 0.02}, {"model": "b", "error": -0.138}, {"model": "c", "error": 0.1}]
    assert verdict(rows) == "2 of 3 within 10%; the worst is b: -13.8%"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--check", "--layers", "18", "--image-size", "32"], "leave --layers and --image-size out"),
        (["--check", "--threads", "0"], "threads must be 1 or more"),
        (["--check", "--latency", "3"], "not allowed with"),
        (["--latency", "3", "--report", "x"], "--report is of --check"),
        (["--budget", "90", "--layers", "18", "--threads", "2"], "--threads is of --latency and --check"),
    ],
)
def test_flags_that_do_not_go_together(words, said, capsys):
    try:
        code = main(["design", *words])
    except SystemExit as error:
        code = error.code
    assert code == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


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
