import pytest
import torch

from ftbnn import _native
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import set_mode
from ftbnn.training import Recipe
from ftbnn.training.backend import resolve

CPU = torch.device("cpu")
NETWORK = build("toy-relu")


def test_auto_is_native_where_its_kernels_are_faster(monkeypatch):
    monkeypatch.delenv("FTBNN_ISA", raising=False)
    wanted = "native" if _native.capabilities()["training"]["faster"] else "torch"
    assert resolve(Recipe("r"), NETWORK, CPU).backend == wanted
    real = build("toy-relu")
    set_mode(real, activations="tanh", weights="real")  # steps of multi-step training
    assert resolve(Recipe("r"), real, CPU).backend == wanted
    monkeypatch.setenv("FTBNN_ISA", "portable")
    assert resolve(Recipe("r"), NETWORK, CPU).backend == "torch"
    assert resolve(Recipe("r", backend="native"), NETWORK, CPU).backend == "native"


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
