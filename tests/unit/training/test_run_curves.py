import json
from contextlib import contextmanager

import pytest

from ftbnn.drawing import canvas
from ftbnn.errors import UserError
from ftbnn.experiments.curves import curves
from ftbnn.training import curves as training_curves


def run_of(folder, epochs, *, val=True):
    folder.mkdir()
    scores = {"val_top1": 50.0} if val else {}
    rows = [
        {"kind": "epoch", "step": k, "epoch": k, "train_loss": 1.0, "train_top1": 40.0, **scores} for k in range(epochs)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def shown_ticks(axes):
    axes.figure.canvas.draw()
    low, high = axes.get_xlim()
    return [
        label.get_text()
        for label, place in zip(axes.get_xticklabels(), axes.get_xticks(), strict=True)
        if low <= place <= high
    ]


@pytest.mark.parametrize("epochs", [1, 2, 3, 40])
def test_epochs_are_whole_numbers(epochs, tmp_path, monkeypatch):
    ticks = []

    @contextmanager
    def watched(*given, **settings):
        with canvas(*given, **settings) as axes:
            yield axes
            ticks.extend(shown_ticks(axes))

    monkeypatch.setattr(training_curves, "canvas", watched)
    training_curves.plot([run_of(tmp_path / "run", epochs)], tmp_path / "c.png")
    record = {"variant": "a", "divergence": "", "chosen": "", "epochs": [{"val_top1": 1.0, "train_loss": 1.0}] * epochs}
    with watched(tmp_path / "e.png") as axes:
        curves(axes, [record], {"a": "a"})
    assert ticks
    assert all(tick.isdigit() for tick in ticks), ticks


@pytest.mark.parametrize(("epochs", "has_dots"), [(1, True), (5, True), (100, False)])
def test_few_epochs_are_seen(epochs, has_dots, tmp_path, monkeypatch):
    markers = []

    @contextmanager
    def watched(*given, **settings):
        with canvas(*given, **settings) as axes:
            yield axes
            markers.extend(line.get_marker() for each in axes.figure.axes for line in each.get_lines())

    monkeypatch.setattr(training_curves, "canvas", watched)
    training_curves.plot([run_of(tmp_path / "run", epochs)], tmp_path / "c.png")
    assert markers == ["." if has_dots else "None"] * 2


def test_without_validation_training_is_drawn(tmp_path):
    assert training_curves.plot([run_of(tmp_path / "run", 2, val=False)], tmp_path / "c").name == "c.png"
    assert training_curves.best_top1(training_curves.epochs_by_step(tmp_path / "run")) is None


def test_a_run_without_an_epoch_is_one_line(tmp_path):
    with pytest.raises(UserError, match="has no finished epoch yet"):
        training_curves.load_curve(run_of(tmp_path / "run", 0))
