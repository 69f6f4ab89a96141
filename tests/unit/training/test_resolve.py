from pathlib import Path

import pytest
import torch

from ftbnn import _native
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import set_mode
from ftbnn.training import Recipe
from ftbnn.training.backend import LEARNS_THE_SAME, choose, resolve

CPU = torch.device("cpu")
NETWORK = build("toy-relu")


WIDE = build("ftbnn18", width=64)


def on_a_machine_with(monkeypatch, gradients, byte_gradients="portable"):
    kernels = {"gradients": gradients, "byte_gradients": byte_gradients}
    monkeypatch.setattr("ftbnn.machine.capabilities", lambda: {"kernels": kernels})
    monkeypatch.setattr("ftbnn.training.backend.is_faster", lambda: gradients != "portable")


def test_auto_is_native_where_its_kernels_are_faster(monkeypatch):
    monkeypatch.delenv("FTBNN_ISA", raising=False)
    wanted = "native" if _native.capabilities()["training"]["faster"] else "torch"
    assert resolve(Recipe("r"), WIDE, CPU).backend == wanted
    real = build("ftbnn18", width=64)
    set_mode(real, activations="tanh", weights="real")  # steps of multi-step training
    assert resolve(Recipe("r"), real, CPU).backend == wanted
    monkeypatch.setenv("FTBNN_ISA", "portable")
    assert resolve(Recipe("r"), WIDE, CPU).backend == "torch"
    assert resolve(Recipe("r", backend="native"), WIDE, CPU).backend == "native"


@pytest.mark.parametrize(
    ("gradients", "network", "backend", "why"),
    [
        ("avx512bf16", WIDE, "native", "times as fast as torch"),
        ("avx512bf16", NETWORK, "native", "times as fast as torch"),
        ("avx2", WIDE, "native", "avx2 kernels"),
        ("avx2", NETWORK, "native", "avx2 kernels"),
        ("amx", WIDE, "native", "not been measured"),
        ("portable", WIDE, "torch", "no kernels"),
    ],
)
def test_auto_goes_by_cpu_and_says_why(monkeypatch, gradients, network, backend, why):
    on_a_machine_with(monkeypatch, gradients)
    choice = choose(Recipe("r"), network, CPU)
    assert choice.backend == backend
    assert why in choice.why


def test_auto_takes_no_backend_of_which_learning_is_not_shown(monkeypatch):
    on_a_machine_with(monkeypatch, "avx512bf16", "avx512vnni")
    monkeypatch.setattr("ftbnn.training.backend.LEARNS_THE_SAME", {"native": "a report"})
    choice = choose(Recipe("r"), WIDE, CPU)
    assert choice.backend == "native"
    assert "backend=native8 is faster still" in choice.why
    monkeypatch.setattr("ftbnn.training.backend.LEARNS_THE_SAME", {"native": "a report", "native8": "another"})
    assert choose(Recipe("r"), WIDE, CPU).backend == "native8"


def test_reports_that_the_choice_rests_on_are_there():
    root = Path(__file__).parents[3]
    assert all((root / report / "README.md").is_file() for report in LEARNS_THE_SAME.values())


def test_auto_is_torch_where_native_cannot():
    assert resolve(Recipe("r"), NETWORK, torch.device("cuda")).backend == "torch"
    assert resolve(Recipe("r", precision="bf16"), NETWORK, CPU).backend == "torch"
    assert resolve(Recipe("r"), build("resnet18"), CPU).backend == "torch"


def test_a_resumed_run_keeps_its_backend():
    assert resolve(Recipe("r"), NETWORK, CPU, before="torch").backend == "torch"
    assert resolve(Recipe("r"), NETWORK, CPU, before="native").backend == "native"
    assert Recipe.from_json({"name": "older than backends"}).backend == "torch"


def test_gradients_in_bytes_want_a_cpu_for_them(monkeypatch):
    monkeypatch.delenv("FTBNN_ISA", raising=False)
    if _native.capabilities()["training"]["bytes"]:
        assert resolve(Recipe("r", backend="native8"), NETWORK, CPU).backend == "native8"
    monkeypatch.setenv("FTBNN_ISA", "portable")
    with pytest.raises(UserError, match="AVX2; native does without"):
        resolve(Recipe("r", backend="native8"), NETWORK, CPU)


@pytest.mark.parametrize(
    ("settings", "network", "device", "message"),
    [
        ({}, NETWORK, "cuda", "cuda"),
        ({"precision": "bf16"}, NETWORK, "cpu", "precision=bf16"),
        ({"compile": True}, NETWORK, "cpu", "compile"),
        ({}, torch.nn.Linear(1, 1), "cpu", "without binary convolutions"),
    ],
)
def test_native_that_cannot_be_is_refused_in_a_line(settings, network, device, message):
    with pytest.raises(UserError, match=message):
        resolve(Recipe("r", backend="native", **settings), network, torch.device(device))
