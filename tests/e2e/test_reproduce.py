"""Every experiment at the quick scale, killed and restarted, and the report of them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ftbnn.cli.main import main
from ftbnn.data.batches import Batches
from ftbnn.errors import UserError
from ftbnn.experiments.names import EXPERIMENTS
from ftbnn.experiments.reproduce import queue_of, request_for
from ftbnn.experiments.result import read
from ftbnn.training.loop import Loop

ENV = os.environ | {"OMP_NUM_THREADS": "1"}
RESULTS = Path(__file__).parents[2] / "results"
QUICK = ["--scale", "quick", "--threads", "1"]


def wait_for(happened, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None and not happened():
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Figure 2's folder, left in the middle of its second run."""
    out = tmp_path_factory.mktemp("reproduce") / "figure2"
    words = [sys.executable, "-m", "ftbnn", "reproduce", "figure2", *QUICK, "--out", str(out)]
    process = subprocess.Popen(words, env=ENV, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for(lambda: list(out.glob("runs/toy-prelu-*/run.json")), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    first = out / "runs" / "toy-relu-seed0" / "outcome.json"
    return out, read(out), first, first.stat().st_mtime_ns


@pytest.fixture(scope="module")
def results(killed):
    """All of them in one folder; table 3 first, so that others take its runs."""
    folder = killed[0].parent
    only = {"table4": ["--only", "d18-g[15]", "method-*", "ftbnn18"]}  # deeper ones take longer and are made alike
    for what in ("table3", "table1", "methods", "recipes", "table2", "figure1", "table4", "figure2", "backends"):
        assert main(["reproduce", what, *QUICK, "--out", str(folder / what), *only.get(what, [])]) == 0
    alone = folder / "alone"  # deploy takes every run beside it: here that is its own
    assert main(["reproduce", "deploy", *QUICK, "--out", str(alone / "deploy")]) == 0
    (alone / "deploy").rename(folder / "deploy")
    return folder


@pytest.mark.parametrize("what", EXPERIMENTS)
def test_a_result_has_what_the_report_needs(results, what):
    result = read(results / what)
    assert result["what"] == what
    assert result["runs_finished"] == result["runs_planned"] == len(result["runs"]) > 0
    assert result["command"].startswith(f"ftbnn reproduce {what} --out my/{what} --scale quick")
    assert result["machine"]["cpu"]
    assert result["tables"][0]["rows"]
    assert result["pictures"]
    for picture in result["pictures"]:
        assert (results / what / picture["file"]).stat().st_size > 5000


def test_runs_are_shared(results):
    assert not (results / "table2" / "runs").exists()
    assert not (results / "figure1" / "runs").exists()
    assert {path.name for path in (results / "table1" / "runs").iterdir()} == {
        "ftbnn18-multi-step-seed0",
        "ftbnn18-long-seed0",
    }
    assert read(results / "table2")["runs"][0] == read(results / "table3")["runs"][0]


def test_runs_that_are_taken_from_elsewhere_are_said_and_may_be_refused(results, tmp_path, capsys):
    for out in ("one", "two"):
        (tmp_path / out).mkdir()
    run = Path("runs", "toy-relu-seed0")
    for out, name in (("one", "toy-relu-seed0"), ("two", "toy-prelu-seed0")):
        shutil.copytree(results / "figure2" / "runs" / name, tmp_path / out / "runs" / name)
    shutil.copytree(tmp_path / "one" / run, tmp_path / "new" / run)
    words = ["reproduce", "figure2", *QUICK, "--seeds", "1", "--out", str(tmp_path / "new")]
    assert main([*words, "--only", "toy-relu", "toy-prelu"]) == 0
    told = f"figure2: 2 of 2 runs are there already, 1 of them from {tmp_path / 'two'}\n"
    assert told in capsys.readouterr().err
    fresh = [*words[:-1], str(tmp_path / "fresh"), "--only", "toy-relu", "toy-prelu"]
    assert main(fresh) == 0
    assert f"2 of 2 runs are there already, from {tmp_path / 'new'} and {tmp_path / 'two'}" in capsys.readouterr().err
    assert main([*fresh[:-4], str(tmp_path / "apart"), "--only", "toy-relu", "--alone"]) == 0
    assert "already" not in capsys.readouterr().err
    assert (tmp_path / "apart" / run / "outcome.json").exists()
    before = read(tmp_path / "apart")
    assert before["runs_planned"] == 1
    assert before["command"].endswith("--alone --only toy-relu")
    assert main(["reproduce", "figure2", "--show", "--out", str(tmp_path / "apart")]) == 0
    assert read(tmp_path / "apart") == before, "it still stands alone"


def test_the_papers_numbers_stand_beside_ours(results):
    ablation = {row["variant"]: row for row in read(results / "table3")["tables"][0]["rows"]}
    assert len(ablation) == 13
    assert ablation["ftbnn18"]["paper_top1"] == 60.2
    assert 0 <= ablation["ftbnn18"]["top1"] <= 100
    assert ablation["resnet18"]["paper_top5"] == 89.2
    groups, claims, others, budgets, _ = read(results / "table4")["tables"]
    assert [(row["layers"], row["groups"]) for row in groups["rows"] if row["seeds"]] == [(18, 1), (18, 5)], "asked"
    assert len(groups["rows"]) == 12
    assert all(row["budget_m"] <= 0.3 for row in groups["rows"])
    assert len(budgets["rows"]) == 20
    right = {row["paper"]: row for row in others["rows"]}
    assert (right["HWGQ"]["paper_top1"], right["BNN Ensemble"]["top1"]) == (59.6, None)
    assert all(row["seeds"] == 1 for name, row in right.items() if name != "BNN Ensemble")
    assert claims["rows"][0]["paper"] == pytest.approx(0.0), "of 18 layers: those of 34 were not asked for"
    slopes = read(results / "table2")["tables"][0]["rows"]
    assert slopes[0]["paper_left"] == "1.82 [0.48 4.63]"
    assert slopes[0]["ours_left"].startswith(("0.9", "1.0"))


def test_each_method_has_its_size_and_milliseconds(results):
    (methods,) = read(results / "methods")["tables"]
    others = read(results / "table4")["tables"][2]
    for table in (methods, others):
        rows = [row for row in table["rows"] if row["method"] != "ftbnn.nn.Ensemble"]
        assert len(rows) > 15
        assert all(row["ms"] > 0 and row["bytes_k"] > 1 for row in rows)
        assert {row["measured_on"]["cpu"] for row in rows} == {methods["rows"][0]["measured_on"]["cpu"]}
        assert rows[0]["measured_on"]["cpu"] in table["caption"]
    by_name = {row["method"]: row for row in methods["rows"]}
    assert by_name["irnet"]["ms"] == by_name["irnet, its own recipe"]["ms"], "the same network"


def test_milliseconds_stay_with_the_machine_they_were_measured_on(results, tmp_path, capsys):
    out, text = tmp_path / "methods", (results / "methods" / "result.json").read_text()
    there = read(results / "methods")["tables"][0]["rows"][0]["measured_on"]["cpu"]
    out.mkdir()
    (out / "result.json").write_text(
        text.replace(json.dumps(there), '"another CPU"').replace(f", {there},", ", another CPU,")
    )
    before = read(out)["tables"]
    assert main(["reproduce", "methods", *QUICK, "--out", str(out), "--keep", "--show"]) == 0
    assert "least over turns, another CPU" in capsys.readouterr().out
    assert read(out)["tables"] == before


def test_the_toys_are_measured(results):
    toys, apart, _ = read(results / "figure2")["tables"]
    rows, apart = ({row["model"]: row for row in table["rows"]} for table in (toys, apart))
    assert apart["Linear"]["outputs.block1.conv"] == 0
    assert apart["Binary"]["features.block2.conv"] > 0
    assert rows["ReLU"]["spread"] is not None
    assert all(row["separation"] > 0 for row in rows.values())


def test_a_deployed_network_agrees_with_its_checkpoint(results):
    (row,) = read(results / "deploy")["tables"][0]["rows"]
    assert row["agreement"] >= 99
    assert row["packed_top1"] == pytest.approx(row["checkpoint_top1"], abs=0.35)
    assert row["file_kb"] < row["fp32_kb"] / 5
    assert min(row["native_ms"], row["binary_ms"], row["fp32_ms"]) > 0


def test_the_report(results, tmp_path, capsys):
    assert main(["report", str(results), "-o", str(tmp_path / "r.html"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["missing"] == []
    html = (tmp_path / "r.html").read_text()
    assert html.count("data:image/png") == len(EXPERIMENTS)
    assert not re.search(r"\b1 (epochs|seeds|threads|runs)\b", html)
    assert html.count("<section") == html.count("</section>") == len(EXPERIMENTS) + 2, "claims and zoo"
    (tmp_path / "d.md").write_text("<!-- result table3/claims -->\n<!-- end -->\n")
    assert main(["report", str(results), "--markdown", str(tmp_path / "d.md")]) == 0
    assert "the baseline beats Bi-Real Net" in (tmp_path / "d.md").read_text()


def test_killed_it_goes_on_where_it_was(killed, results):
    out, partial, first, written = killed
    assert partial["runs_finished"] == 1, "what there was had been shown"
    relu = partial["tables"][0]["rows"][3]
    assert (relu["model"], relu["top1"]) == ("ReLU", read(out)["runs"][0]["top1"])
    assert first.stat().st_mtime_ns == written, "a finished run is not made again"
    assert read(results / "figure2")["runs_finished"] == 8


def test_a_signal_ends_it_in_one_line(tmp_path):
    out = tmp_path / "table2"
    words = [sys.executable, "-m", "ftbnn", "reproduce", "table2", *QUICK, "--set", "epochs=50", "--out", str(out)]
    process = subprocess.Popen(words, env=ENV, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list(out.glob("runs/*/best.pt")), process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "go on with the same command" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table2", *QUICK, "--seeds", "0"], "seeds must be more than 0"),
        (["table4", *QUICK, "--width", "8"], "give the budget"),
        (["table3", *QUICK, "--budget", "8"], "a budget is for table4"),
        (["table2", *QUICK, "--set", "epochs=none"], "epochs"),
        (["table2", *QUICK, "--set", "speed=1"], "unknown recipe setting"),
        (["table2", *QUICK, "--threads", "0"], "--threads"),
        (["table2", "--out", "none"], "cifar10 lies in a directory"),
    ],
)
def test_mistakes_are_one_line(words, message, capsys):
    assert main(["reproduce", *words]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


def test_another_setting_does_not_mix_with_what_is_there(results, capsys):
    table3 = ["reproduce", "table3", *QUICK, "--out", str(results / "table3")]
    assert main([*table3, "--set", "lr=0.1"]) == 2
    assert "lr: 0.005 -> 0.1" in capsys.readouterr().err


def test_what_is_there_is_shown_without_training(tmp_path, capsys):
    out = tmp_path / "table4"
    assert main(["reproduce", "table4", *QUICK, "--out", str(out), "--show"]) == 0
    assert "The paper's 20 derived networks, counted" in capsys.readouterr().out
    assert read(out)["runs_finished"] == 0
    assert not (out / "runs").exists()


@pytest.mark.parametrize("what", ["table3", "figure2"])
def test_a_result_is_shown_as_it_was_made_without_its_data(what, tmp_path, capsys):
    shutil.copytree(RESULTS / what, tmp_path / what)
    before = read(tmp_path / what)
    assert main(["reproduce", what, "--show", "--out", str(tmp_path / what)]) == 0
    assert before["tables"][0]["caption"] in capsys.readouterr().out
    after = read(tmp_path / what)
    assert [key for key in before if after[key] != before[key] and key != "written"] == []
    shown = request_for(what, out=tmp_path / what, show=True)
    with pytest.raises(UserError, match=r"^there are runs to be measured on the images of .*: say where they are"):
        next(Batches(shown.source.test, shown.spec, batch_size=4, shuffle=False).epoch(0))
    assert main(["reproduce", what, "--show", "--out", str(tmp_path / what), "--set", "lr=1"]) == 2
    assert "lr: 0.005 -> 1.0" in capsys.readouterr().err


def test_two_processes_share_the_runs(tmp_path):
    out = tmp_path / "figure2"
    words = [sys.executable, "-m", "ftbnn", "reproduce", "figure2", *QUICK, "--out", str(out), "--json"]
    both = [subprocess.Popen(words, env=ENV, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in "12"]
    ends = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    started = [line.split()[-1] for _, err in ends for line in err.splitlines() if line.startswith("figure2 [")]
    assert sorted(started) == sorted(record["name"] for record in read(out)["runs"]), "each run once"
    assert [json.loads(answer)["runs_finished"] for answer, _ in ends] == [8, 8]


def test_a_result_without_its_runs_is_not_lost(results, tmp_path, capsys):
    out = tmp_path / "table2"
    out.mkdir()
    (out / "result.json").write_bytes((results / "table2" / "result.json").read_bytes())
    words = ["reproduce", "table2", *QUICK, "--out", str(out)]
    assert main(words) == 2
    assert "(--keep)" in capsys.readouterr().err
    assert main([*words, "--keep"]) == 0
    assert read(out)["tables"] == read(results / "table2")["tables"]


def test_what_is_kept_is_not_dropped(results, tmp_path, capsys):
    for what in ("figure2", "deploy"):
        (tmp_path / what).mkdir()
        (tmp_path / what / "result.json").write_bytes((results / what / "result.json").read_bytes())
    keep = lambda what, *more: main(  # noqa: E731
        ["reproduce", what, *QUICK, *more, "--out", str(tmp_path / what), "--keep"]
    )
    assert keep("figure2", "--seeds", "1") == 2
    assert "would be lost" in capsys.readouterr().err
    assert keep("deploy") == 0
    assert read(tmp_path / "deploy")["tables"] == read(results / "deploy")["tables"]


def test_a_run_tells_what_it_was_trained_with(results):
    record = next(run for run in read(results / "table1")["runs"] if run["variant"] == "ftbnn18-multi-step")
    assert len(record["backends"]) == 3
    assert set(record["backends"]) <= {"torch", "native"}
    assert record["environment"]["isa"]
    assert record["best_top1"] == max(row["val_top1"] for row in record["epochs"][-1:]), "of the binary step alone"


def test_a_signal_between_the_last_step_and_the_next_run_is_not_lost(tmp_path, monkeypatch):
    """The run that is done has nothing to stop; the queue around it has."""
    monkeypatch.setattr(Loop, "_finish_epoch", _finish_and_ask(Loop._finish_epoch))
    words = ["reproduce", "figure2", *QUICK, "--set", "epochs=1", "--out", str(tmp_path / "f")]
    assert main(words) == 128 + signal.SIGTERM
    assert len(list(tmp_path.glob("f/runs/*/outcome.json"))) == 1


def _finish_and_ask(finish):
    def asked(self, *given):
        finish(self, *given)
        os.kill(os.getpid(), signal.SIGTERM)

    return asked


@pytest.mark.parametrize("what", ["table2", "figure1", "figure2", "deploy"])
def test_a_run_that_diverges_is_a_result(what, tmp_path, capsys):
    words = ["reproduce", what, *QUICK, "--seeds", "1", "--set", "max_loss=0.1", "--out", str(tmp_path / "t")]
    assert main(words) == 0
    record, *others = read(tmp_path / "t")["runs"]
    assert record["state"] == "diverged"
    assert record["divergence"].startswith("the loss is")
    assert str(tmp_path) not in json.dumps(record)
    assert main(words) == 0, "and it is not tried again"
    count = 1 + len(others)
    assert f"{count} of {count} runs are there already" in capsys.readouterr().err


def test_what_was_not_asked_for_counts_if_it_is_there(results, tmp_path, capsys):
    out = tmp_path / "table3"
    out.mkdir()
    (out / "result.json").write_bytes((results / "table3" / "result.json").read_bytes())
    words = ["reproduce", "table3", *QUICK, "--seeds", "2", "--out", str(out), "--keep"]
    assert main([*words, "--only", "*-prelu", "bireal18"]) == 0
    result, before = read(out), read(results / "table3")
    assert [run["name"] for run in result["runs"][len(before["runs"]) :]] == [
        "ftbnn18-prelu-seed1",
        "bireal18-seed1",
        "ftbnn18-stage-relu-prelu-seed1",
    ]
    assert result["runs"][: len(before["runs"])] == before["runs"]
    assert result["runs_planned"] == result["runs_finished"]
    assert result["command"].endswith("--only '*-prelu' bireal18")
    capsys.readouterr()
    assert main([*words, "--only", "ftbnn"]) == 2
    assert "no variant is called 'ftbnn'; there are ftbnn18, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "only", "variants"),
    [
        ("methods", ["ftbnn", "irnet", "recu,*"], {"ftbnn18", "method-irnet", "own-recu"}),
        ("figure2", ["ReLU"], {"toy-relu"}),
    ],
)
def test_a_variant_is_asked_for_by_its_name_or_as_its_row_is_called(what, only, variants, tmp_path):
    request = request_for(what, scale="quick", out=tmp_path, only=only)
    assert {job.variant for job in queue_of(request).asked} == variants
