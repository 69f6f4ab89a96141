import json
import os

import pytest
import torch

from ftbnn import _native
from ftbnn.bench.profile import without_marks
from ftbnn.bench.train import Case
from ftbnn.cli.main import main
from ftbnn.models import build
from ftbnn.nn import use_backend


@pytest.mark.parametrize("name", ["ftbnn18", "bireal18", "ftbnn-d18-g3-v5"])
def test_the_plain_formulation_is_the_same_network(name):
    """Equal loss and equal gradients: what is timed side by side computes the same."""
    network = build(name, classes=3, width=None if "-d18" in name else 4, stem="small").double()
    images, labels = torch.randn(4, 3, 32, 32, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    losses, gradients = [], []
    for formulation in ("torch", "plain"):
        with use_backend(formulation):
            losses.append(torch.nn.functional.cross_entropy(network(images), labels))
        gradients.append(torch.autograd.grad(losses[-1], list(network.parameters())))
    torch.testing.assert_close(*losses)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_rows_have_what_a_report_needs(capsys):
    bytes_too = ["native8"] if _native.capabilities()["training"]["bytes"] else []
    assert main(["bench", "train", "toy-relu", "--batch", "4", "--image-size", "28", "--rounds", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["formulation"] for row in rows] == ["plain", "torch", "native", *bytes_too]
    assert {"isa", "images_per_s", "peak_mb", "median_ms", "min_ms"} <= set(rows[0])
    assert all(row["images_per_s"] > 0 and row["peak_mb"] > 0 for row in rows)


def test_methods_stand_beside_ftbnn(capsys):
    words = ["bench", "train", "ftbnn18", "--width", "4", "--batch", "4", "--image-size", "16", "--rounds", "1"]
    assert main([*words, "--methods", "irnet", "hwgq", "--json"]) == 0
    irnet, hwgq = json.loads(capsys.readouterr().out)
    assert (irnet["method"], irnet["natively"], irnet["convolutions"]) == ("irnet", 16, 16)
    assert hwgq["natively"] == 0  # several levels of inputs
    assert irnet["plain_ms"] > 0
    assert irnet["native_share"] > 0
    assert main([*words, "--methods", "irnet"]) == 0
    assert "16 of 16" in capsys.readouterr().out
    assert main(["bench", "train", "toy-relu", "--methods"]) == 2


def test_a_profile_has_every_phase_and_the_rest(capfd, monkeypatch):
    arguments = ["toy-prelu", "--batch", "4", "--image-size", "28", "--rounds", "1", "--profile"]
    assert main(["bench", "train", *arguments, "--json"]) == 0
    out, err = capfd.readouterr()
    assert not err
    found = json.loads(out)
    assert [row["phase"] for row in found["phases"]] == ["data", "forward", "backward", "optimizer"]
    assert sum(row["share"] for row in found["phases"]) == pytest.approx(1)
    assert sum(row["ms"] for row in found["phases"]) == pytest.approx(found["step_ms"])
    rows = found["operators"]
    assert {("data", "wait for the batch"), ("Python", "between operators")} <= {
        (r["layer"], r["operator"]) for r in rows
    }
    phases = {(row["layer"], row["operator"]) for row in rows}
    assert {("block1.conv", "conv"), ("block2.conv", "conv gradients")} <= phases
    assert {("data", "wait for the batch"), ("Python", "between operators")} <= phases
    assert any(row["layer"] == "PyTorch" for row in rows)
    assert all(row["gmacs_per_s"] > 0 for row in rows if row["operator"] == "conv")
    assert all(row["roof_share"] > 0 for row in rows if row["operator"] == "conv gradients")
    monkeypatch.setattr("ftbnn.cli.bench.LEAST_SHARE", 0)  # under load PyTorch's share may be tiny
    assert main(["bench", "train", *arguments]) == 0
    out = capfd.readouterr().out
    assert "PyTorch" in out
    assert ", optimizer " in out.splitlines()[0]


@pytest.mark.parametrize("formulation", ["torch", "native"])
def test_a_profiled_step_trains_on_views_and_the_others_on_the_same_images(formulation):
    case = Case("toy-relu", None, 4, 28, 10, 1)
    for loads in (False, True):
        network, step = case.training(formulation, loads=loads)
        before = network.state_dict()["fc.weight"].clone()
        assert set(step()) == {"data", "forward", "backward", "optimizer"}
        assert not torch.equal(before, network.state_dict()["fc.weight"])


def test_the_roof_of_two_threads_is_that_of_both():
    one, two = (_native.bench.gradient_roof(False, threads, 0.01) for threads in (1, 2))
    assert (one is None) == (two is None)
    if one is not None:
        assert min(one, two) > 0
    with pytest.raises(ValueError, match="a thread"):
        _native.bench.gradient_roof(False, 0, 0.01)


def test_only_the_marks_of_the_profiler_are_left_out(capfd):
    with without_marks():
        os.write(2, b"USDT:2026 profiler_start\nERROR: something broke\n")
    assert capfd.readouterr().err == "ERROR: something broke\n"


def test_mistakes(capsys):
    assert main(["bench", "train", "ftbn18"]) == 2
    assert main(["bench", "train", "ftbnn18", "--batch", "0"]) == 2
    assert main(["bench", "train", "ftbnn18", "--backend", "native8"]) == 2
    assert main(["bench", "train", "ftbnn18", "--profile", "--rounds", "0"]) == 2
    assert capsys.readouterr().err.count("\n") == 4
