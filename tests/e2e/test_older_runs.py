"""Runs from before there were validation splits: they load, evaluate, export and go on as they began, to the bit."""

import json
from dataclasses import replace

import pytest
import torch

from ftbnn.cli.main import main
from ftbnn.data import load as load_data
from ftbnn.errors import UserError
from ftbnn.training import Options, load_run
from ftbnn.training.checkpoint import load
from ftbnn.training.curves import load_curve
from ftbnn.workflows.ship import ship
from ftbnn.workflows.train import plan, train

SMALL = ["train", "ftbnn18", "--width", "4", "--set", "epochs=3", "--set", "backend=torch", "--threads", "1"]
TIMED = {"images_per_s", "seconds"}


class PowerCut(Exception):
    pass


def begun(out, *, epochs=3):
    """A run that looks at the test images after every epoch, as they all did; cut off in the epoch after so many."""
    torch.set_num_threads(1)
    source = load_data("digits")
    settings = {"epochs": "3", "validation": "0", "backend": "torch"}
    job = plan("ftbnn18", "digits", source=replace(source, val=source.test), settings=settings, width=4, out=out)

    def cut(row, _):
        if row["epoch"] == epochs + 1:
            raise PowerCut

    options = Options(quiet=True, save_every=5, callbacks=[cut])
    if epochs == 3:
        train(job, options)
        return
    with pytest.raises(PowerCut):
        train(job, options)


def rewrite(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def made_older(run):
    """The files as version 0.1.0 wrote them."""

    def recipe(value):
        del value["validation"], value["patience"]

    def about(value):
        data = value["data"]
        data["val_images"] = data.pop("test_images")
        del data["resize"], value["commands"]
        value["environment"]["python"] = value["environment"]["versions"].pop("python")

    def state(path):
        value = torch.load(path, weights_only=True)
        recipe(value["recipe"])
        del value["spec"]["resize"]
        if "position" in value:
            del value["position"]["best_epoch"], value["position"]["is_over"], value["scheduler"]
            row = value["position"]["row"]
            row["slopes"] = row.pop("records")
        else:
            value["scores"] = {key: score for key, score in value["scores"].items() if key.startswith("val_")}
        torch.save(value, path)

    rewrite(run / "recipe.json", recipe)
    rewrite(run / "run.json", about)
    for name in ("last.pt", "best.pt"):
        state(run / name)
    rows = [
        json.loads(line.replace('"records"', '"slopes"')) for line in (run / "metrics.jsonl").read_text().splitlines()
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "scores.json").unlink(missing_ok=True)


def test_one_that_was_cut_off_goes_on_to_the_same_bytes(tmp_path, capsys):
    whole, run = tmp_path / "whole", tmp_path / "run"
    begun(whole)
    begun(run, epochs=1)
    made_older(run)
    for _ in range(2):  # also when it is resumed again
        assert main([*SMALL, "--out", str(run), "--resume", "--json"]) == 0
        scores = json.loads(capsys.readouterr().out)
    for name in ("last.pt", "best.pt"):
        ours, theirs = load(run / name)["model"], load(whole / name)["model"]
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs), name
    assert scores["chosen"] == "best by test accuracy"
    assert scores["test_top1"] == max(row["val_top1"] for row in load_curve(run))
    assert "validation" not in json.loads((run / "recipe.json").read_text())


def test_a_finished_one_is_read_evaluated_and_exported(tmp_path, capsys):
    run, file = tmp_path / "run", tmp_path / "run.ftbnn"
    begun(run)
    before = json.loads((run / "scores.json").read_text())
    made_older(run)
    found = load_run(run)
    assert found.recipe.validation == 0
    assert found.spec == load_data("digits").spec
    assert found.scores["val_top1"] == before["test_top1"]
    assert main(["eval", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_top1"] == before["test_top1"]
    assert main(["export", str(run), "-o", str(file)]) == 0
    capsys.readouterr()
    assert main(["eval", str(file), "--data", "digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_top1"] == pytest.approx(before["test_top1"], abs=0.35)
    assert main(["curves", str(run), "--out", str(tmp_path / "c.png")]) == 0
    with pytest.raises(UserError, match="does not know the command that made it"):
        ship(run, "mine", None, tmp_path)


def test_a_teacher_by_the_name_it_was_given(tmp_path, monkeypatch):
    """Older runs keep it as it was typed."""
    monkeypatch.chdir(tmp_path)
    assert main(["train", "resnet18", "--width", "4", "--set", "epochs=1", "--out", "teacher"]) == 0
    words = [*SMALL, "--set", "kl=1", "--teacher", "teacher", "--out", "run"]
    assert main(words) == 0
    rewrite(tmp_path / "run" / "run.json", lambda about: about.update(teacher="teacher"))
    assert main([*words, "--resume"]) == 0
    monkeypatch.chdir(tmp_path / "run")
    words[words.index("teacher")], words[-1] = "../teacher", "."
    rewrite(tmp_path / "run" / "run.json", lambda about: about.update(teacher=str(tmp_path / "teacher")))
    assert main([*words, "--resume"]) == 0, "the same one by another path"
