"""The library as its users write it: train in Python, go on there or on the command line, with data of one's own."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader

import ftbnn
from ftbnn.cli.main import main
from ftbnn.data import load as load_data
from ftbnn.errors import UserError
from ftbnn.exchange.qonnx_export import export_qonnx
from ftbnn.exchange.qonnx_proto import decode
from ftbnn.nn import BasicBlock
from ftbnn.training.checkpoint import load
from ftbnn.training.record import read

QUIET = ftbnn.Options(quiet=True)
RECIPE = ftbnn.Recipe("mine", epochs=2, batch_size=64)
ONE_IMAGE = 0.35  # of the 297 test digits, in %
PROBE = Path(__file__).parent / "probe_own.py"


def mine():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3), BasicBlock(16, act="fprelu", follows_relu=False), nn.Flatten(), nn.Linear(576, 10)
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A network of one's own, trained on the digits."""
    run, network = tmp_path_factory.mktemp("python") / "mine", mine()
    return run, network, ftbnn.fit(network, "digits", RECIPE, run, QUIET)


def floats():
    """The test digits as data of one's own, normalised already."""
    source = load_data("digits")
    images = (source.test.images / 255 - source.spec.mean[0]) / source.spec.std[0]
    return list(zip(images, source.test.labels.tolist(), strict=True))


def test_the_run_is_evaluated_and_exported_on_the_command_line(trained, tmp_path, capsys):
    run, _, scores = trained
    file = tmp_path / "mine.ftbnn"
    assert main(["eval", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_top1"] == pytest.approx(scores["test_top1"], abs=ONE_IMAGE)
    assert main(["export", str(run), "-o", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["top1_agreement"] >= 0.98
    assert main(["eval", str(file), "--data", "digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_top1"] == pytest.approx(scores["test_top1"], abs=ONE_IMAGE)
    Image.fromarray(load_data("digits").test.images[0, 0].numpy()).save(tmp_path / "0.png")
    assert main(["predict", str(file), str(tmp_path / "0.png")]) == 0
    assert main(["curves", str(run), "--out", str(tmp_path / "c.png")]) == 0
    assert main(["inspect", str(file)]) == 0
    capsys.readouterr()


def test_the_file_keeps_the_accuracy_on_8_bit_images(trained, tmp_path):
    """Mean and deviation, class names and how a photo is cut come from the run."""
    run, network, scores = trained
    for number, what in enumerate((run, ftbnn.load_run(run, mine()))):
        report = ftbnn.export(what, tmp_path / f"{number}.ftbnn")
        assert report.top1_agreement >= 0.98
        model = ftbnn.load(tmp_path / f"{number}.ftbnn")
        spec = load_data("digits").spec
        assert model.class_names == list("0123456789")
        assert model.mean == pytest.approx(spec.mean)
        assert model.std == pytest.approx(spec.std)
        digits = load_data("digits").test
        hits = (model(digits.images.permute(0, 2, 3, 1).numpy()).argmax(1) == digits.labels.numpy()).mean()
        assert 100 * hits == pytest.approx(scores["test_top1"], abs=ONE_IMAGE)
    ftbnn.export(network, tmp_path / "said.ftbnn", spec=spec)
    assert ftbnn.load(tmp_path / "said.ftbnn").mean == model.mean


def test_everything_that_is_trained_is_evaluated(trained, tmp_path):
    run, network, scores = trained
    ftbnn.export(run, tmp_path / "f.ftbnn")
    for what, data in [
        (network, "digits"),
        (network, floats()),
        (network, DataLoader(floats(), batch_size=50)),
        (run, None),
        (str(run), "digits"),
        (ftbnn.load_run(run, mine()), None),
        (ftbnn.load_run(run / "best.pt", mine()), floats()),
        (tmp_path / "f.ftbnn", "digits"),
        (tmp_path / "f.ftbnn", floats()),
        (ftbnn.load(tmp_path / "f.ftbnn"), DataLoader(floats(), batch_size=50)),
    ]:
        found = ftbnn.evaluate(what, data)
        assert found["test_top1"] == pytest.approx(scores["test_top1"], abs=ONE_IMAGE)
        assert found["test_images"] == 297
    card = ftbnn.zoo.card("digits")
    assert ftbnn.evaluate("zoo:digits")["test_top1"] == pytest.approx(card["packed_top1"], abs=ONE_IMAGE)


def test_evaluating_leaves_the_network_as_it_was():
    network = mine()
    network[1].norm.eval()
    ftbnn.evaluate(network, "digits")
    assert network.training
    assert not network[1].norm.training


@pytest.mark.parametrize(
    ("what", "data", "message"),
    [
        (mine(), None, r"does not say what it was trained on: say it \(data\)$"),
        ("zoo:digits", "synthetic", "the file takes 1x8x8 images; synthetic has 3x8x8"),
        ("zoo:digits", [(torch.zeros(1, 9, 9), 0)] * 2, r"float images must be \(N, 1, 8, 8\)"),
        ("zoo:digit", None, "unknown zoo network 'digit'"),
        ("zoo:cifar10", None, r"cifar10 lies in a directory .*: say in which \(data_dir\)$"),
        ("none", None, "no checkpoint at none"),
        ("none.ftbnn", "digits", "cannot read none.ftbnn"),
        (None, "digits", "what is evaluated is a network, .*, not None"),
        (b"bytes", "digits", "what is evaluated is a network, .*, not a bytes"),
    ],
)
def test_what_cannot_be_evaluated_is_one_clear_line(what, data, message):
    with pytest.raises(UserError, match=message) as caught:
        ftbnn.evaluate(what, data)
    assert "\n" not in str(caught.value)


def test_export_does_not_guess_how_images_are_prepared(tmp_path):
    network, path = mine(), tmp_path / "x.ftbnn"
    for settings in ({}, {"image_size": (1, 8, 8)}, {"mean": 0.5, "std": 0.5}):
        with pytest.raises(UserError, match="a file must know its images"):
            ftbnn.export(network, path, **settings)
    with pytest.raises(UserError, match="must be square here, not 8 x 9"):
        ftbnn.export(network, path, image_size=(1, 8, 9), mean=0.5, std=0.5)
    names = [f"class {k}" for k in range(10)]
    ftbnn.export(network, path, image_size=(1, 8, 8), mean=0.5, std=[0.25], class_names=names, resize=9)
    model = ftbnn.load(path)
    assert (model.mean, model.std, model.class_names) == ([0.5], [0.25], names)


def linear():
    """Of images of 8 x 8, and of no others."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))


@pytest.mark.parametrize(
    ("what", "settings", "message"),
    [
        (None, {}, "what is exported is a run, a checkpoint or a network, not None"),
        (ftbnn.load("zoo:digits"), {}, "what is exported is .*, not a Model"),
        (
            linear(),
            {"image_size": (1, 9, 9)},
            "the network does not run on images of 1x9x9: .*say the size that it takes",
        ),
        (linear(), {"image_size": (1, "8", 8)}, r"image_size is \(channels, height, width\)"),
        (linear(), {"image_size": (1, 0, 0)}, r"image_size is \(channels, height, width\)"),
        (linear(), {"class_names": [1, 2]}, "the name of a network or of a class is a text, not an int"),
        (linear(), {"class_names": 2}, "class_names are a list of texts, one for each output, not 2"),
        (linear(), {"class_names": "ab"}, "class_names are a list of texts, one for each output, not 'ab'"),
        (linear(), {"mean": "dark"}, "mean and std are a number, or one for each channel, not 'dark'"),
    ],
)
def test_what_cannot_be_exported_is_one_clear_line(what, settings, message, tmp_path):
    settings = {"image_size": (1, 8, 8), "mean": 0.0, "std": 1.0} | settings
    with pytest.raises(UserError, match=message) as caught:
        ftbnn.export(what, tmp_path / "x.ftbnn", **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("what", [None, b"bytes", ftbnn.load("zoo:digits")], ids=["None", "bytes", "model"])
def test_other_things_are_no_networks(what, tmp_path):
    kind = "None" if what is None else f"a {type(what).__name__}"
    with pytest.raises(UserError, match=f"is a .ftbnn file, a run, a checkpoint or a network, not {kind}"):
        ftbnn.export_c(what, tmp_path)
    for call in (ftbnn.summary, lambda network: ftbnn.count(network, (1, 8, 8))):
        with pytest.raises(UserError, match=f"a torch.nn.Module, not {kind}"):
            call(what)
    if not callable(what):
        with pytest.raises(UserError, match=f"fit takes a torch.nn.Module, not {kind}"):
            ftbnn.fit(what, "digits", RECIPE, tmp_path / "run", QUIET)


@pytest.mark.parametrize("format", ["ftbnn", "onnx"])
def test_a_packed_file_is_not_packed_again(tmp_path, format):
    with pytest.raises(UserError, match=f"zoo:digits is packed already: .* {format} is written of a run or a network"):
        ftbnn.export("zoo:digits", tmp_path / f"x.{format}")


def test_onnx_tells_of_its_images_as_qonnx_does(tmp_path):
    pytest.importorskip("onnx")
    network = mine()
    images = {"image_size": (1, 8, 8), "mean": 0.5, "std": 0.25, "class_names": [*"abcdefgh"], "resize": 9}
    ftbnn.export(network, tmp_path / "x.onnx", name="mine", **images)
    ftbnn.export(network, tmp_path / "x.ftbnn", name="mine", **images)
    export_qonnx(tmp_path / "x.ftbnn", tmp_path / "q.onnx")
    told = [decode((tmp_path / name).read_bytes())["metadata_props"] for name in ("x.onnx", "q.onnx")]
    assert told[0] == told[1]
    assert {entry["key"]: entry["value"] for entry in told[0]} == {
        "ftbnn.name": "mine",
        "ftbnn.mean": "0.5",
        "ftbnn.std": "0.25",
        "ftbnn.resize": "9",
        "ftbnn.classes": "a\nb\nc\nd\ne\nf\ng\nh\noutput 8\noutput 9",
    }


def test_the_format_is_that_of_the_files_name(tmp_path):
    network, spec = mine(), load_data("digits").spec
    ftbnn.export(network, tmp_path / "x.onnx", spec=spec)
    with pytest.raises(UserError, match=r"not a .ftbnn file"):
        ftbnn.load(tmp_path / "x.onnx")
    for name, format, message in (
        ("x.onnx", "ftbnn", "x.onnx would hold ftbnn; call it .ftbnn, or give the format onnx"),
        ("x.ftbnn", "onnx", "x.ftbnn would hold onnx; call it .onnx, or give the format ftbnn"),
        ("x", "tflite", "unknown format 'tflite'"),
    ):
        with pytest.raises(UserError, match=message):
            ftbnn.export(network, tmp_path / name, spec=spec, format=format)


def test_another_format_than_the_runs_file_takes_the_network(trained, tmp_path):
    run, network, _ = trained
    again = f"in Python, ftbnn.export(ftbnn.load_run({str(run)!r}, network), 'x.onnx', format='onnx')"
    with pytest.raises(UserError, match=re.escape(again)):
        ftbnn.export(run, "x.onnx")
    ftbnn.export(ftbnn.load_run(run, network), tmp_path / "x.onnx", format="onnx")
    assert (tmp_path / "x.onnx").exists()


def test_a_run_on_data_of_ones_own_is_told_how_images_are_prepared(tmp_path, capsys):
    data, run = floats(), tmp_path / "run"
    scores = ftbnn.fit(mine(), (data, data), RECIPE, run, QUIET)
    assert main(["export", str(run)]) == 2
    err = capsys.readouterr().err
    assert "how images of your own data are prepared is not known" in err
    assert f"in Python, ftbnn.export(ftbnn.load_run('{run}', network), FILE, image_size=..., mean=..., std=...)" in err
    assert err.count("\n") == 1
    assert main(["eval", str(run), "--data", "digits"]) == 2
    assert f"in Python, ftbnn.evaluate(ftbnn.load_run('{run}', network), data)" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"in Python, ftbnn.export\(ftbnn.load_run"):
        ftbnn.export(run, tmp_path / "x.ftbnn", image_size=(1, 8, 8), mean=0.0, std=1.0)
    found = ftbnn.load_run(run, mine())
    with pytest.raises(UserError, match=r"run was trained on data of your own: give their spec, or image_size="):
        ftbnn.export(found, tmp_path / "x.ftbnn")
    with pytest.raises(UserError, match=r"trained on data of your own: say on which now \(data\)"):
        ftbnn.evaluate(found)
    spec = load_data("digits").spec
    ftbnn.export(found, tmp_path / "x.ftbnn", image_size=(1, 8, 8), mean=spec.mean, std=spec.std)
    assert ftbnn.evaluate(tmp_path / "x.ftbnn", "digits")["test_top1"] == pytest.approx(
        scores["test_top1"], abs=ONE_IMAGE
    )


def test_a_source_with_a_spec_says_how_images_of_ones_own_are_prepared(tmp_path, capsys):
    data, run, names = floats(), tmp_path / "run", tuple("abcdefghij")
    spec = replace(load_data("digits").spec, name="letters", class_names=names)
    scores = ftbnn.fit(mine(), ftbnn.data.Source(spec, data, data), RECIPE, run)
    assert main(["export", str(run), "-o", str(tmp_path / "x.ftbnn")]) == 0
    assert ftbnn.load(tmp_path / "x.ftbnn").class_names == list(names)
    assert ftbnn.evaluate(run, data)["test_top1"] == pytest.approx(scores["test_top1"], abs=ONE_IMAGE)
    capsys.readouterr()
    assert main(["eval", str(run)]) == 2
    assert "was trained on data of your own, letters: say on which now (--data)" in capsys.readouterr().err


def test_who_trains_on_data_of_their_own_is_told_that_there_is_no_file(tmp_path):
    with pytest.warns(UserWarning, match="gets no best.ftbnn: how images of your own data are prepared") as told:
        ftbnn.fit(mine(), floats(), replace(RECIPE, epochs=1), tmp_path / "run")
    assert len(told) == 1


def test_the_file_in_a_run_is_that_of_its_best_epoch_or_none(trained, tmp_path):
    run = tmp_path / "run"
    steady = replace(RECIPE, schedule="constant")

    class PowerCut(Exception):
        pass

    def cut(*_):
        raise PowerCut

    ftbnn.fit(mine(), "digits", steady, run, QUIET)
    with pytest.raises(PowerCut):  # in the first epoch of an extension, when its best weights are written
        ftbnn.fit(mine(), "digits", replace(steady, epochs=9), run, replace(QUIET, resume=True, callbacks=[cut]))
    assert load(run / "best.pt")["epoch"] == 3
    with pytest.raises(UserError, match="the run has not come to its end"):
        ftbnn.export(run, tmp_path / "x.ftbnn")
    with pytest.raises(UserError, match=r"the file in .* is made: for another one, export load_run"):
        ftbnn.export(trained[0], tmp_path / "x.ftbnn", mean=0.5)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two kinds of photos, told apart by what is in their middle."""
    root, generator = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for split, count in (("train", 24), ("val", 10)):
        for label, level in (("dark", 60), ("light", 190)):
            (root / split / label).mkdir(parents=True)
            for k in range(count):
                pixels = generator.integers(0, 256, (60, 70, 3), dtype=np.uint8)
                pixels[15:45, 20:50] = np.clip(generator.normal(level, 30, (30, 30, 3)), 0, 255)
                Image.fromarray(pixels).save(root / split / label / f"{k}.png")
    return root


def test_photos_are_cut_alike_in_training_and_in_the_file(photos, tmp_path, capsys):
    run, file = tmp_path / "run", tmp_path / "run.ftbnn"
    words = ["--data", "imagefolder", "--data-dir", str(photos), "--image-size", "28"]
    assert (
        main(
            [
                "train",
                "ftbnn18",
                "--width",
                "8",
                *words,
                "--set",
                "epochs=2",
                "--set",
                "batch_size=8",
                "--out",
                str(run),
            ]
        )
        == 0
    )
    scores = json.loads((run / "scores.json").read_text())
    assert scores["test_images"] == 20
    assert main(["export", str(run), "-o", str(file)]) == 0
    assert ftbnn.evaluate(file, "imagefolder", data_dir=photos)["test_top1"] == scores["test_top1"]
    pictures = sorted(str(path) for path in (photos / "val").glob("*/*.png"))
    capsys.readouterr()
    assert main(["predict", str(file), *pictures, "--top", "1", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    hits = [answer["top"][0]["class"] == Path(answer["image"]).parent.name for answer in answers]
    assert 100 * sum(hits) / len(hits) == scores["test_top1"], "as photos, with nothing but the file"


def test_a_pretrained_network_is_what_the_zoo_has_and_trains_on(tmp_path):
    network = ftbnn.build("ftbnn18", pretrained="zoo:digits")
    before = ftbnn.evaluate(network, "digits")["test_top1"]
    assert before == pytest.approx(ftbnn.zoo.card("digits")["packed_top1"], abs=ONE_IMAGE)
    gently = ftbnn.Recipe(epochs=1, batch_size=64, lr=1e-6, schedule="constant")
    scores = ftbnn.fit(network, "digits", gently, tmp_path / "run", QUIET)
    assert scores["test_top1"] > before - 2, "the statistics that training needs are those of its images"


def test_a_pretrained_network_for_other_classes(tmp_path):
    network = ftbnn.build("ftbnn18", pretrained="digits", classes=2)
    given = ftbnn.build("ftbnn18", pretrained="digits")
    assert network.fc.weight.shape[0] == 2
    assert torch.equal(network.stage1[0].conv.weight > 0, given.stage1[0].conv.weight > 0)
    digits = load_data("digits")
    items = [(image, int(label > 4)) for image, label in floats()]
    frozen = network.requires_grad_(False)
    frozen.fc.requires_grad_(True)
    scores = ftbnn.fit(frozen, items, replace(RECIPE, lr=1e-2, epochs=4), tmp_path / "run", QUIET)
    assert scores["val_top1"] > 75
    assert digits.spec.classes == 10


@pytest.mark.parametrize(
    ("name", "pretrained", "message"),
    [("bireal18", "zoo:digits", "is a ftbnn18, not a bireal18"), ("ftbnn18", "zoo:digit", "digits")],
)
def test_other_networks_are_not_pretrained(name, pretrained, message):
    with pytest.raises(UserError, match=message):
        ftbnn.build(name, pretrained=pretrained)


RAISES = """
import sys, torch, ftbnn
class Data:
    def __len__(self):
        return 12
    def __getitem__(self, index):
        if index == 5:
            raise OSError("the disk has gone")
        return torch.zeros(1, 2, 2), 0
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
try:
    ftbnn.fit(net, Data(), ftbnn.Recipe(epochs=2, batch_size=2), sys.argv[1], ftbnn.Options(quiet=True, workers=2))
except ValueError as error:
    sys.exit(str(error))
"""


def test_a_data_set_that_raises_in_a_worker_ends_the_process_with_one_line(tmp_path):
    quietly = [sys.executable, "-W", "ignore"]  # on one core PyTorch warns of two workers
    result = subprocess.run(
        [*quietly, "-c", RAISES, str(tmp_path / "run")], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 1
    assert result.stderr == "item 5 of your data set raises OSError: the disk has gone (<string>, line 8)\n"


def test_a_batch_with_one_good_image_is_not_counted(tmp_path):
    """BatchNorm could not train on it: it is skipped, and stands in no mean."""
    root = tmp_path / "photos"
    for split, count in (("train", 9), ("val", 2)):
        (root / split / "a").mkdir(parents=True)
        for k in range(count):
            Image.new("RGB", (40, 40), (25 * k, 0, 0)).save(root / split / "a" / f"{k}.png")
    for k in range(8):
        (root / "train" / "a" / f"{k}.png").write_bytes(b"broken")
    run = tmp_path / "run"
    recipe = ftbnn.Recipe(epochs=1, batch_size=9, validation=0.0)
    options = ftbnn.Options(quiet=True, max_corrupt=1, log_every=1)
    source = load_data("imagefolder", root, image_size=32)
    ftbnn.fit(ftbnn.build("ftbnn18", width=4, classes=1, stem="small"), source, recipe, run, options)
    (step,) = (row for row in read(run / "metrics.jsonl") if row["kind"] == "step")
    assert step["images_per_s"] == 0
    (epoch,) = (row for row in read(run / "metrics.jsonl") if row["kind"] == "epoch")
    assert (epoch["corrupt"], epoch["images_per_s"]) == (8, 0)


OWN = """
import torch
with open({notes!r}, "a") as file:
    file.write("x")
class Net(torch.nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.fc = torch.nn.Linear(64, classes)
    def forward(self, x):
        return {forward}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    forward = "self.fc(torch.cumsum(x.flatten(1), 1))"  # an operator that no budget knows
    Path("net.py").write_text(OWN.format(notes=str(tmp_path / "notes"), forward=forward))
    return ["train", "net.py:Net", "--set", "epochs=1", "--set", "backend=torch"]


@pytest.mark.filterwarnings("default")
def test_a_users_file_is_executed_once_and_nobody_talks_of_budgets(own, capsys):
    assert main([*own, "--out", "run"]) == 0
    assert Path("notes").read_text() == "x"
    err = capsys.readouterr().err
    assert "warning" not in err
    assert "cumsum" not in err
    assert main(["eval", "run"]) == 0


def test_a_run_of_a_users_file_works_from_any_folder(own, tmp_path, monkeypatch, capsys):
    """... one from before it kept the file's whole path from its own, and a file that is lost is told of."""
    run, other = tmp_path / "run", tmp_path / "other"
    assert main([*own, "--out", "run"]) == 0
    other.mkdir()
    monkeypatch.chdir(other)
    assert main(["eval", str(run)]) == 0
    assert main(["train", "../net.py:Net", *own[2:], "--out", str(run), "--resume"]) == 0
    assert ftbnn.load_run(run).name == "net.py:Net"

    about = json.loads((run / "run.json").read_text())
    about["model"]["name"] = "net.py:Net"
    (run / "run.json").write_text(json.dumps(about))
    state = torch.load(run / "best.pt", weights_only=True)
    state["model_spec"]["name"] = "net.py:Net"
    torch.save(state, run / "best.pt")
    monkeypatch.chdir(tmp_path)
    assert main([*own, "--out", "run", "--resume"]) == 0
    assert main(["eval", "run"]) == 0
    Path("net.py").unlink()
    capsys.readouterr()
    assert main(["eval", "run"]) == 2
    assert "net.py, which is not there: bring it back, or" in (err := capsys.readouterr().err)
    assert "load_run(path, network)" in err


def test_another_file_of_the_same_name_is_another_network(own, tmp_path, monkeypatch):
    assert main([*own, "--out", "run"]) == 0
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    Path("net.py").write_text(OWN.format(notes=str(tmp_path / "more"), forward="self.fc(x.flatten(1))"))
    assert main([*own, "--out", "run"]) == 0
    assert (tmp_path / "more").read_text() == "x"
    Path("net.py").write_text(OWN.format(notes=str(tmp_path / "more"), forward="self.fc(2 * x.flatten(1))"))
    assert main([*own, "--out", "again"]) == 0
    assert (tmp_path / "more").read_text() == "xx", "a changed file is executed again"


def test_a_network_that_does_not_take_the_images_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        "import torch\ndef net(): return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(63, 10))\n"
    )
    assert main(["train", "net.py:net", "--out", "run"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "net.py:net" in last
    assert "63" in last


def test_killed_and_resumed_it_ends_with_the_same_bytes(tmp_path):
    """With DataLoaders, patience, an optimizer and a scheduler of one's own; killed twice, where it was in the way."""

    def run(out, *kills):
        command = [sys.executable, str(PROBE), str(tmp_path / out), *map(str, kills)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )

    assert run("whole").returncode == 0
    assert run("run", 37).returncode == -signal.SIGKILL
    assert run("run", 60).returncode == -signal.SIGKILL
    last = run("run")
    assert last.returncode == 0, last.stderr
    for name in ("last.pt", "best.pt"):
        ours, theirs = (load(tmp_path / out / name)["model"] for out in ("run", "whole"))
        assert all(ours[key].numpy().tobytes() == theirs[key].numpy().tobytes() for key in theirs), name
    ours, theirs = (json.loads((tmp_path / out / "scores.json").read_text()) for out in ("run", "whole"))
    assert {**ours, "images_per_s": 0} == {**theirs, "images_per_s": 0}
