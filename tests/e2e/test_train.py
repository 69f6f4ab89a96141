"""Training as a user runs it: processes, signals, directories."""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from PIL import Image

import ftbnn
from ftbnn.cli.main import main
from ftbnn.data import ArraySplit, Source
from ftbnn.data import load as load_data
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.training import Options, Recipe, fit
from ftbnn.training.checkpoint import load
from ftbnn.training.record import read
from ftbnn.training.run import load_state
from ftbnn.workflows.ship import ship
from ftbnn.workflows.train import renamed
from ftbnn.workflows.warm_start import start_from
from ftbnn.zoo import card as zoo_card

QUIET = Options(quiet=True)

# A few seconds of training on the embedded digits: 1350 images and 22 steps an epoch.
SMALL = ["train", "ftbnn18", "--data", "digits", "--width", "4", "--threads", "1"]
THREE_EPOCHS = [*SMALL, "--set", "epochs=3", "--set", "backend=native"]
ENV = os.environ | {"OMP_NUM_THREADS": "1"}


def command(*argv):
    return [sys.executable, "-m", "ftbnn", *map(str, argv)]


def shell(*argv, **options):
    return subprocess.run(command(*argv), env=ENV, capture_output=True, text=True, check=False, **options)


def weights(run, name="last.pt"):
    return load(run / name)["model"]


def assert_same_bytes(a, b):
    assert list(a) == list(b)
    for name in a:
        assert a[name].numpy().tobytes() == b[name].numpy().tobytes(), name


def wait_for_step(run, step, process):
    deadline = time.monotonic() + 60
    path = run / "metrics.jsonl"
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and (lines := path.read_text().splitlines()):
            try:
                if json.loads(lines[-1])["step"] >= step:
                    return
            except ValueError:
                pass  # caught in the middle of a line
        time.sleep(0.01)
    raise AssertionError(f"the run never reached step {step}: {process.communicate()}")


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run of three epochs that nobody disturbs."""
    out = tmp_path_factory.mktemp("whole") / "run"
    result = shell(*THREE_EPOCHS, "--out", out, "--json")
    assert result.returncode == 0, result.stderr
    return out, json.loads(result.stdout)


def test_a_run_leaves_everything(whole_run):
    out, row = whole_run
    names = {path.name for path in out.iterdir()}
    files = {"run.json", "recipe.json", "metrics.jsonl", "tensorboard", "last.pt", "best.pt", "scores.json", ".lock"}
    assert names == files
    run = json.loads((out / "run.json").read_text())
    assert run["model"]["settings"]["stem"] == "small"
    assert run["environment"]["versions"]["torch"] == torch.__version__
    epochs = [r for r in read(out / "metrics.jsonl") if r["kind"] == "epoch"]
    assert len(epochs) == 3
    assert set(epochs[0]) >= {"train_loss", "val_top1", "val_top5", "lr", "images_per_s", "flips", "records"}
    assert len(epochs[0]["flips"]) == 16
    assert len(epochs[0]["records"]) == 12
    assert 0 < epochs[0]["flips"]["stage1.0.conv"] < 1
    assert epochs[-1]["train_loss"] < epochs[0]["train_loss"]
    chosen = max(epochs, key=lambda epoch: epoch["val_top1"])
    assert row["epoch"] == chosen["epoch"] + 1
    for key in ("train_top1", "val_top1", "val_loss"):
        assert row[key] == chosen[key]
    assert row == {"run": str(out)} | json.loads((out / "scores.json").read_text())


def test_eval_gives_the_same_score(whole_run, capsys):
    out, row = whole_run
    assert main(["eval", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for key in ("test_loss", "test_top1", "test_top5"):
        assert found[key] == pytest.approx(row[key])
    assert found["test_images"] == 297
    assert main(["eval", str(out / "last.pt")]) == 0
    assert "top-1" in capsys.readouterr().out


def test_curves(whole_run, tmp_path, capsys):
    out, _ = whole_run
    assert main(["curves", str(out), str(out), "-o", str(tmp_path / "c.png")]) == 0
    assert (tmp_path / "c.png").stat().st_size > 5000
    capsys.readouterr()


def test_killed_at_three_random_steps_it_ends_with_the_same_bytes(whole_run, tmp_path):
    reference, _ = whole_run
    out = tmp_path / "run"
    train = [*THREE_EPOCHS, "--out", out, "--save-every", "5", "--log-every", "1"]
    generator = random.Random(int(time.time()))
    kills = sorted(generator.sample(range(3, 60), 3))
    for number, step in enumerate(kills):
        process = subprocess.Popen(
            command(*train, *(["--resume"] if number else [])), env=ENV, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        wait_for_step(out, step, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, f"it ended before step {step}"
    result = shell(*train, "--resume")
    assert result.returncode == 0, result.stderr
    assert_same_bytes(weights(out), weights(reference))
    assert_same_bytes(weights(out, "best.pt"), weights(reference, "best.pt"))
    assert len(json.loads((out / "run.json").read_text())["resumed"]) == 3
    rows = [r["step"] for r in read(out / "metrics.jsonl") if r["kind"] == "step"]
    assert rows == list(range(1, 67)), f"killed at {kills}"
    ours, theirs = ([r for r in read(run / "metrics.jsonl") if r["kind"] == "epoch"] for run in (out, reference))
    for a, b in zip(ours, theirs, strict=True):
        timed = {"images_per_s", "seconds"}
        assert {k: v for k, v in a.items() if k not in timed} == {k: v for k, v in b.items() if k not in timed}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_ends_cleanly(whole_run, tmp_path, number):
    reference, _ = whole_run
    out = tmp_path / "run"
    train = [*THREE_EPOCHS, "--out", out, "--log-every", "1"]
    process = subprocess.Popen(command(*train), env=ENV, stderr=subprocess.PIPE, text=True)
    wait_for_step(out, 30, process)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    told = f"ftbnn train --resume --out {out} --threads 1 --log-every 1"
    assert f"go on with `{told}`" in err
    assert load(out / "last.pt")["position"]["step"] > 0
    assert shell(*shlex.split(told)[1:]).returncode == 0
    assert_same_bytes(weights(out), weights(reference))


def test_a_signal_to_the_whole_group_is_answered_by_the_trainer_alone(photos, tmp_path):
    out = tmp_path / "run"
    train = ["train", "ftbnn18", "--width", "4", "--data", "imagefolder", "--data-dir", photos, "--image-size", "32"]
    options = [
        "--set",
        "epochs=200",
        "--set",
        "batch_size=4",
        "--workers",
        "2",
        "--max-corrupt",
        "0.2",
        "--log-every",
        "1",
    ]
    process = subprocess.Popen(
        command(*train, *options, "--out", out), env=ENV, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for_step(out, 5, process)
    os.killpg(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "Traceback" not in err
    assert (out / "last.pt").exists()


def test_a_finished_run_resumes_to_nothing(whole_run):
    out, _ = whole_run
    before = (out / "last.pt").read_bytes()
    result = shell(*THREE_EPOCHS, "--out", out, "--resume")
    assert result.returncode == 0
    assert (out / "last.pt").read_bytes() == before


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--set", "epochs=3"], "holds a run already: go on with it (--resume) or choose another directory"),
        (["--set", "epochs=2", "--resume"], "epochs: 3 -> 2"),
        (["--set", "epochs=3", "--resume", "--seed", "7"], "seed"),
        (["--set", "epochs=9", "--set", "lr=1", "--resume"], "lr: 0.005 -> 1.0"),
        (["--resume", "--width", "8"], "was started with width 4, not 8"),
        (["--resume", "--stem-bits", "8"], "was started with stem bits of its own, not 8"),
        (["--resume", "--data", "synthetic"], "was started with data digits, not synthetic"),
        (["--resume", "--recipe", "naive"], "was started with recipe naive-digits, not naive"),
    ],
)
def test_a_run_is_never_overwritten_nor_resumed_as_another(whole_run, extra, message, capsys):
    out, _ = whole_run
    assert main([*SMALL, *extra, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "is extended" not in err


def test_a_run_goes_on_as_it_was_without_being_told_again(tmp_path, capsys):
    """Its own recipe, not the default one; and the number of epochs may grow."""
    out, own = str(tmp_path / "run"), ["--set", "epochs=2", "--set", "lr=.002", "--set", "schedule=constant"]
    assert main([*SMALL, *own, "--seed", "3", "--out", out]) == 0
    resume = ["train", "--resume", "--out", out, "--threads", "1"]
    assert main(resume) == 0
    assert main([*resume, "--set", "epochs=3"]) == 0
    assert [row["lr"] for row in read(tmp_path / "run" / "metrics.jsonl") if row["kind"] == "epoch"] == [0.002] * 3
    capsys.readouterr()
    for words, message in (
        (["bireal18"], "was started with model ftbnn18, not bireal18"),
        (["--out", str(tmp_path)], "nothing to resume"),
    ):
        assert main([*resume, *words]) == 2
        assert message in capsys.readouterr().err
    assert main(["train"]) == 2
    assert "say which network" in capsys.readouterr().err


def test_a_run_starts_from_the_weights_of_another(whole_run, tmp_path, capsys):
    first, _ = whole_run
    last = tmp_path / "first" / "last.pt"
    shutil.copytree(first, last.parent)
    words = [*SMALL, "--set", "epochs=1", "--set", "lr=1e-9", "--init", str(last), "--out", str(tmp_path / "second")]
    assert main(words) == 0
    before, after = weights(first), weights(tmp_path / "second")
    for name in ("stage1.0.conv.weight", "fc.weight"):
        assert torch.allclose(before[name], after[name], atol=1e-6)
    assert main([*words, "--init", "zoo:digits", "--resume"]) == 2
    assert "was started with init" in capsys.readouterr().err
    card = ship(tmp_path / "second", "mine", None, tmp_path)
    assert card["epoch"] == "1 of 1, best on validation, after 3 of 3 of earlier training"
    assert "--out RUN-START" in card["commands"][0]
    assert card["commands"][1].endswith("--init RUN-START/last.pt")
    shutil.rmtree(last.parent)  # a run that has begun, and its card, need it no more
    assert main([*words, "--resume"]) == 0
    again = ship(tmp_path / "second", "mine", None, tmp_path)
    assert again["epoch"] == card["epoch"]
    assert again["commands"] == card["commands"]


def test_a_run_starts_from_a_file(tmp_path, capsys):
    """... and its card can tell how the file came about after the zoo has another one of its name."""
    words = ["train", "ftbnn18", "--init", "zoo:digits", "--set", "epochs=1", "--set", "lr=1e-9", "--seed", "1"]
    assert main([*words, "--out", str(tmp_path / "run"), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    shipped = zoo_card("digits")
    assert abs(row["test_top1"] - shipped["packed_top1"]) < 1.5
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["init"] == "zoo:digits"
    card = ship(tmp_path / "run", "mine", None, tmp_path)
    first, export, second, _ = card["commands"]
    assert first == shipped["commands"][0].replace("--out RUN", "--out RUN-START")
    assert export == "ftbnn export RUN-START/last.pt -o RUN-START.ftbnn"
    assert second.endswith("--init RUN-START.ftbnn")
    assert card["epoch"].endswith(f", after {shipped['epoch'].partition(',')[0]} of earlier training")

    words[words.index("zoo:digits")] = str(tmp_path / "mine.ftbnn")
    assert main([*words, "--out", str(tmp_path / "again")]) == 0
    card = ship(tmp_path / "again", "again", None, tmp_path, about="Once more.")
    assert card["about"] == "Once more."
    assert card["commands"][-1] == "ftbnn export RUN --zoo again --about 'Once more.'"
    assert card["epoch"].endswith(", after the training of a file")
    assert card["commands"][0].endswith("--init RUN-START.ftbnn")
    (tmp_path / "mine.ftbnn").unlink()  # a run that has begun needs it no more
    assert main([*words, "--out", str(tmp_path / "again"), "--resume"]) == 0


def test_a_finished_run_is_extended(tmp_path, capsys):
    """... and its card has both commands."""
    steady = ["--set", "schedule=constant", "--out", str(tmp_path / "run"), "--json"]
    assert main([*SMALL, "--set", "epochs=1", *steady]) == 0
    capsys.readouterr()
    assert main([*SMALL, "--set", "epochs=2", *steady, "--resume"]) == 0
    assert json.loads(capsys.readouterr().out)["epochs"] == 2
    assert [row["epoch"] for row in read(tmp_path / "run" / "metrics.jsonl") if row["kind"] == "epoch"] == [0, 1]
    first, second, _ = ship(tmp_path / "run", "mine", None, tmp_path)["commands"]
    assert "--set epochs=1" in first
    assert "--set epochs=2" in second
    assert second.endswith("--out RUN --resume")


def test_a_card_tells_of_all_generations():
    """Each file that a command starts from is one that an earlier command wrote."""
    commands = zoo_card("cifar10")["commands"]
    for start in ("RUN-START", "RUN-START-START"):
        commands = [*renamed(commands, start), f"ftbnn train ftbnn18 --out RUN --init {start}.ftbnn"]
        words = [line.split() for line in commands]
        written = [line[line.index("-o") + 1] for line in words if "-o" in line]
        read = [line[line.index("--init") + 1] for line in words if "--init" in line]
        assert written == read
        assert len(set(written)) == len(written)
        commands += ["ftbnn export RUN --zoo cifar10"]


def test_steps_remember_where_the_first_one_started(tmp_path):
    """Also those that begin after the run was resumed."""
    assert main([*SMALL, "--recipe", "teacher-digits", "--set", "epochs=1", "--out", str(tmp_path / "teacher")]) == 0
    words = ["train", "ftbnn18", "--init", "zoo:digits", "--recipe", "multi-step-digits", "--set", "epochs=1"]
    words += ["--teacher", str(tmp_path / "teacher"), "--out", str(tmp_path / "run"), "--set", "attention=0"]
    assert main(words) == 0
    for step in ("step1", "step2"):
        shutil.rmtree(tmp_path / "run" / step)
    assert main(["train", "--resume", "--out", str(tmp_path / "run")]) == 0
    recipes = [json.loads((tmp_path / "run" / f"step{step}" / "recipe.json").read_text()) for step in range(3)]
    assert [(recipe["epochs"], recipe["attention"]) for recipe in recipes] == [(1, 0)] * 3
    abouts = [json.loads((tmp_path / "run" / f"step{step}" / "run.json").read_text()) for step in (0, 2)]
    assert abouts[0]["commands"] == abouts[1]["commands"]
    assert abouts[0]["commands"][:-1] == renamed(zoo_card("digits")["commands"], "RUN-START")


def test_of_other_classes_all_but_the_classifier_is_taken(whole_run):
    first, _ = whole_run
    network = build("ftbnn18", classes=7, in_channels=1, width=4, stem="small")
    own = network.fc.weight.clone()
    assert start_from(network, load_state(first)) == ["fc.weight", "fc.bias"]
    given = weights(first, "best.pt")
    assert torch.equal(network.fc.weight, own)
    assert torch.equal(network.state_dict()["stage1.0.conv.weight"], given["stage1.0.conv.weight"])


@pytest.mark.parametrize(
    ("name", "width", "message"), [("ftbnn18", 8, "is \\[4"), ("bireal18", 4, "is only"), ("resnet18", 4, "is only")]
)
def test_another_network_gives_no_weights(whole_run, name, width, message):
    network = build(name, classes=10, in_channels=1, width=width, stem="small")
    with pytest.raises(UserError, match=message):
        start_from(network, load_state(whole_run[0]))


def test_two_processes_never_train_in_one_directory(tmp_path, capsys):
    out = tmp_path / "run"
    first = subprocess.Popen(command(*SMALL, "--set", "epochs=99", "--out", out), env=ENV, stderr=subprocess.PIPE)
    try:
        wait_for_step(out, 1, first)
        assert main([*SMALL, "--set", "epochs=99", "--out", str(out), "--resume"]) == 2
        assert "another process is training" in capsys.readouterr().err
    finally:
        first.kill()
        first.communicate()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["train", "ftbn18"], "ftbnn18"),
        (["train", "ftbnn18", "--data", "digist"], "digits"),
        (["train", "ftbnn18", "--data", "mnist"], "lies in a directory"),
        (["train", "ftbnn18", "--recipe", "naiv"], "naive"),
        (["train", "ftbnn18", "--set", "lrr=1"], "lr"),
        (["train", "ftbnn-d18-g1-90m"], "too small"),
        (["train", "ftbnn18", "--recipe", "multi-step-digits"], "distils from a teacher"),
        (["train", "ftbnn18", "--resume", "--out", "nothing/here"], "nothing to resume"),
        (["train", "ftbnn18", "--teacher", "nothing/here"], "does not distil"),
        (["train", "ftbnn18", "--set", "kl=1", "--teacher", "nothing/here"], "no teacher"),
        (["train", "ftbnn18", "--init", "nothing/here"], "no checkpoint"),
        (["train", "ftbnn18", "--init", "nothing.ftbnn"], "cannot read nothing.ftbnn"),
        (["train", "ftbnn18", "--init", "zoo:digit"], "digits"),
        (["train", "ftbnn18", "--init", "zoo:cifar10"], "is of another network"),
        (["train", "ftbnn18", "--width", "0"], "width must be 1 or more"),
        (["train", "ftbnn18", "--workers", "-1"], "--workers"),
        (["train", "ftbnn18", "--seed", "99999999999999999999"], "--seed"),
        (["train", "ftbnn18", "--device", "cuda"], "CUDA"),
        (["train", "ftbnn18", "--device", "gpu"], "cpu"),
        (["train", "ftbnn18", "--set", "batch_size=1"], "BatchNorm needs at least two"),
        (["train", "ftbnn18", "--threads", "0"], "--threads"),
        (["train", "ftbnn18", "--max-corrupt", "3"], "--max-corrupt is a share of the images, 0 to 1, not 3"),
        (["train", "ftbnn18", "--set", "augment=imagenet"], "in-memory data"),
        (["eval", "nothing/here"], "no checkpoint"),
        (["curves", "nothing/here"], "cannot read"),
    ],
)
def test_mistakes_are_one_line(argv, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert message in last


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--init", "nothing/here"], "no checkpoint at nothing/here"),
        (["--out", "run"], "run holds a run already"),
        (["--resume", "--out", "nothing/here"], "nothing to resume"),
        (["--recipe", "multi-step-digits"], "distils from a teacher, which must be given (--teacher)"),
    ],
)
def test_what_is_wrong_at_once_is_said_before_the_recipe(whole_run, words, message, capsys, monkeypatch):
    monkeypatch.chdir(whole_run[0].parent)
    assert main([*SMALL, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_divergence_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path, capsys):
    out = tmp_path / "run"
    assert main([*SMALL, "--set", "epochs=1", "--set", "lr=1e6", "--out", str(out), "--save-every", "1"]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert "the loss is" in err
    assert any(text in err for text in ("first to go non-finite", "is not finite", "is still finite"))
    assert "lr" in err
    state = load(out / "last.pt")
    assert state["position"]["step"] >= 1
    assert all(torch.isfinite(t).all() for t in state["model"].values() if t.is_floating_point())


def test_weights_that_a_step_ruined_are_never_saved(tmp_path):
    """The loss of the step is fine, its gradient is not."""
    from torch import nn

    from ftbnn.training.diagnose import Diverged

    class Poison(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # noqa: ARG004
            return x.clone()

        @staticmethod
        def backward(ctx, grad):  # noqa: ARG004
            return grad * float("nan")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.steps = nn.Linear(64, 10), 0

        def forward(self, x):
            self.steps += self.training
            out = self.fc(x.flatten(1))
            return Poison.apply(out) if self.steps == 4 else out

    out = tmp_path / "run"
    with pytest.raises(Diverged, match=r"fc\.weight is not finite"):
        fit(Net, "digits", Recipe("x", batch_size=64), out, Options(quiet=True, save_every=1))
    state = load(out / "last.pt")
    assert state["position"]["step"] == 3
    assert torch.isfinite(state["model"]["fc.weight"]).all()


def test_a_refused_start_does_not_stand_in_the_way_of_the_next(tmp_path, capsys):
    out = str(tmp_path / "run")
    assert main([*SMALL, "--set", "kl=1", "--out", out]) == 2
    assert "distils from a teacher" in capsys.readouterr().err
    assert main([*SMALL, "--set", "epochs=1", "--out", out]) == 0


def test_eval_on_images_of_other_channels_or_size_is_refused(whole_run, capsys):
    out, _ = whole_run
    assert main(["eval", str(out), "--data", "synthetic"]) == 2
    assert "best.pt takes 1x8x8 images; synthetic has 3x8x8" in capsys.readouterr().err
    digits = load_data("digits")
    larger = ArraySplit(digits.test.images.repeat_interleave(2, 2).repeat_interleave(2, 3), digits.test.labels)
    with pytest.raises(UserError, match=r"takes 1x8x8 images; large has 1x16x16"):
        ftbnn.evaluate(out, Source(replace(digits.spec, name="large", image_size=16), larger))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ((torch.zeros(1, 8, 8, dtype=torch.uint8), 0), "tensor of floats"),
        (("picture", 0), "tensor of floats"),
        ((torch.zeros(1, 8, 8), "cat"), "whole number"),
        ((torch.zeros(1, 8, 8), 0.5), "class numbers"),
        ((torch.zeros(1, 8, 8), torch.zeros(3)), "class numbers"),
        ((torch.zeros(1, 8, 8), 0, 1), r"\(image, label\)"),
        ({"image": 0}, r"\(image, label\)"),
        ((torch.zeros(1, 8, 8), 7), "labels go from"),
        ((torch.zeros(1, 8, 8), -1), "labels go from"),
    ],
)
@pytest.mark.parametrize("workers", [0, 1])
def test_mistakes_in_a_users_data_set_are_one_line(tmp_path, item, message, workers):
    from torch import nn

    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    options = Options(quiet=True, workers=workers)
    with pytest.raises(UserError, match=message) as caught:
        fit(net, ([item] * 8, [item] * 4), Recipe("x", batch_size=4), tmp_path / "run", options)
    assert "\n" not in str(caught.value)


def test_multi_step_with_a_teacher_carries_weights_over(tmp_path, capsys):
    teacher = tmp_path / "teacher"
    assert main(["train", "resnet18", "--width", "4", "--set", "epochs=1", "--out", str(teacher)]) == 0
    out = tmp_path / "run"
    train = [*SMALL, "--recipe", "multi-step-digits", "--set", "epochs=1", "--set", "step1.lr=1e-30"]
    train += ["--set", "backend=native"]  # of which real-valued layers take no notice
    assert main([*train, "--teacher", str(teacher), "--out", str(out)]) == 0
    first, second = weights(out / "step0"), weights(out / "step1")
    proxies = [name for name in first if name.endswith("conv.weight")]
    assert len(proxies) == 17
    assert all(torch.equal(first[name], second[name]) for name in proxies)
    assert not torch.equal(weights(out / "step2")[proxies[3]], second[proxies[3]])
    recipes = [json.loads((out / f"step{n}" / "recipe.json").read_text()) for n in range(3)]
    assert [(r["activations"], r["weights"]) for r in recipes] == [
        ("tanh", "real"),
        ("sign", "real"),
        ("sign", "binary"),
    ]
    assert all(recipe["backend"] == "native" for recipe in recipes)
    capsys.readouterr()
    assert main(["eval", str(out), "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["test_top1"] == json.loads((out / "step2" / "scores.json").read_text())["test_top1"]
    assert main([*train, "--teacher", str(teacher), "--out", str(out), "--resume"]) == 0
    assert main(["curves", str(out), "--out", str(tmp_path / "c.png")]) == 0


def test_a_torchvision_state_dict_is_a_teacher(tmp_path):
    weights_file = tmp_path / "resnet18.pth"
    torch.save(build("resnet18", width=8, classes=10, in_channels=1, stem="small").state_dict(), weights_file)
    train = [*SMALL, "--set", "epochs=1", "--set", "kl=1", "--teacher", str(weights_file)]
    assert main([*train, "--out", str(tmp_path / "run")]) == 0


def test_options_of_the_recipe_train(tmp_path):
    options = ["precision=bf16", "channels_last=true", "accumulate=3", "clip_norm=1", "warmup_epochs=0.5"]
    sets = [word for option in options for word in ("--set", option)]
    assert main([*SMALL, "--set", "epochs=3", *sets, "--out", str(tmp_path / "run")]) == 0
    rows = [r for r in read(tmp_path / "run" / "metrics.jsonl") if r["kind"] == "epoch"]
    assert rows[-1]["train_loss"] < rows[0]["train_loss"]


def test_accumulated_steps_are_the_whole_step(tmp_path):
    """Without BatchNorm's batch statistics, three micro-batches give the gradient of the whole."""
    from torch import nn

    results = []
    for accumulate in (1, 3):
        recipe = Recipe("x", epochs=1, batch_size=64, accumulate=accumulate)
        out = tmp_path / str(accumulate)
        fit(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), "digits", recipe, out, QUIET)
        results.append(load(out / "last.pt")["model"])
    for name in results[0]:
        torch.testing.assert_close(results[0][name], results[1][name], rtol=1e-4, atol=1e-5)


@pytest.fixture
def photos(tmp_path):
    """An image folder as it comes: good ones, odd ones, broken ones."""
    generator = torch.Generator().manual_seed(0)
    root = tmp_path / "photos"
    for split, count in (("train", 12), ("val", 4)):
        for label, color in (("cat", (200, 60, 60)), ("dog", (60, 60, 200))):
            folder = root / split / label
            folder.mkdir(parents=True)
            for k in range(count):
                size = [int(torch.randint(40, 90, (1,), generator=generator)) for _ in range(2)]
                Image.new("RGB", size, color).save(folder / f"{k}.jpg")
    cats = root / "train" / "cat"
    good = (cats / "0.jpg").read_bytes()
    (cats / "truncated.jpg").write_bytes(good[: len(good) // 2])
    (cats / "text.jpg").write_text("not a picture")
    Image.new("L", (50, 60), 128).save(cats / "grey.jpg")
    Image.new("CMYK", (60, 50)).save(cats / "cmyk.jpg")
    Image.new("RGB", (6000, 5000), (200, 60, 60)).save(cats / "huge.jpg")
    return root


def test_an_image_folder_with_broken_files_trains_on(photos, tmp_path):
    out = tmp_path / "run"
    train = ["train", "ftbnn18", "--width", "4", "--data", "imagefolder", "--data-dir", photos, "--image-size", "32"]
    options = ["--set", "epochs=2", "--set", "batch_size=8", "--workers", "2", "--out", out, "--json"]
    result = shell(*train, *options, "--max-corrupt", "0.2")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["corrupt"] == 2
    for name in ("truncated.jpg", "text.jpg"):
        assert result.stderr.count(f"{name}") == 1, "reported once, not every epoch"
    assert "grey" not in result.stderr
    again = shell("train", "--resume", "--out", out, "--max-corrupt", "0.2")
    assert again.returncode == 0, f"it knows where its data lie: {again.stderr}"
    options[options.index(out)] = tmp_path / "strict"
    strict = shell(*train, *options)
    assert strict.returncode == 2
    assert "corrupt" in strict.stderr.splitlines()[-1]


def test_a_users_own_module_and_data_set(tmp_path):
    from torch import nn

    from ftbnn.nn import BasicBlock

    class Dots:
        def __init__(self, size):
            self.size = size

        def __len__(self):
            return self.size

        def __getitem__(self, index):
            image = 0.3 * torch.randn(1, 8, 8)
            image[0, :, (index % 2) * 4 : (index % 2) * 4 + 4] += 1
            return image, index % 2

    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2), BasicBlock(8, act="fprelu", follows_relu=False), nn.Flatten(), nn.Linear(72, 2)
    )
    scores = fit(net, (Dots(200), Dots(40)), Recipe("mine", epochs=4, batch_size=20), tmp_path / "run", QUIET)
    assert scores["test_top1"] > 90
