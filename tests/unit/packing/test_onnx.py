import sys

import numpy as np
import pytest
import torch
from export_networks import make_dyadic, randomise
from torch import nn

import ftbnn.packing.onnx as writer
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import METHODS, BConv, FPReLU, Sign, method_named
from ftbnn.packing import export_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(
    ("name", "width"),
    [("ftbnn18", 4), ("bireal18", 4), ("resnet18", 4), ("ftbnn18-prelu", 4), ("ftbnn-d18-g3-v5", None)],
)
def test_onnx_runtime_runs_batches_of_any_size(name, width, tmp_path):
    network = randomise(build(name, width=width, classes=3, stem="small")).train()
    report = export_onnx(network, torch.randn(1, 3, 16, 16), tmp_path / "network.onnx")
    assert network.training
    assert report.relative_error < 1e-3
    assert report.size_bytes == (tmp_path / "network.onnx").stat().st_size
    onnx.checker.check_model(onnx.load(tmp_path / "network.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "network.onnx")
    for batch in (1, 5):
        x = torch.randn(batch, 3, 16, 16)
        with torch.no_grad():
            expected = network.eval()(x)
        (found,) = session.run(None, {"input": x.numpy()})
        assert found.shape == (batch, 3)
        assert np.median(np.abs(found - expected.numpy())) < 1e-3 * expected.abs().max()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_written(method, tmp_path):
    network = build("ftbnn18", width=4, classes=3, stem="small", method=method, image_size=16)
    row = method_named(method)
    is_exact = row.conv is None and row.scale is None and row.order == "CB+A"
    network = (make_dyadic(network) if is_exact else network).eval()
    x = torch.randint(-3, 4, (3, 3, 16, 16)).float()
    export_onnx(network, x, tmp_path / "network.onnx")
    (found,) = onnxruntime.InferenceSession(tmp_path / "network.onnx").run(None, {"input": x.numpy()})
    with torch.no_grad():
        expected = network(x).numpy()
    errors = np.abs(found - expected).max(1) / np.abs(expected).max()
    assert (errors.max() if is_exact else np.median(errors)) < 1e-4  # else a sign may turn with the order of a sum


def test_dyadic_networks_are_equal(tmp_path):
    network = make_dyadic(build("toy-prelu", width=4)).eval()
    export_onnx(network, torch.zeros(1, 1, 28, 28), tmp_path / "toy.onnx")
    x = torch.randint(-3, 4, (4, 1, 28, 28)).float()
    (found,) = onnxruntime.InferenceSession(tmp_path / "toy.onnx").run(None, {"input": x.numpy()})
    assert np.array_equal(found, network(x).detach().numpy())


def test_only_float_operators_are_left(tmp_path):
    network = nn.Sequential(Sign(), BConv(4, 5, groups=3), FPReLU(5))
    export_onnx(network, torch.zeros(1, 4, 5, 5), tmp_path / "a.onnx")
    graph = onnx.load(tmp_path / "a.onnx").graph
    assert {node.domain for node in graph.node} == {""}
    assert sum(node.op_type == "Conv" for node in graph.node) == 2


def test_a_wrong_graph_is_refused(tmp_path, monkeypatch):
    network = nn.Sequential(nn.Conv2d(3, 8, 3), Sign(), BConv(8, 4))
    monkeypatch.setattr(
        writer, "plain", lambda module: nn.Sequential(module[0], nn.Tanh(), nn.Conv2d(8, 4, 3, padding=1))
    )
    with pytest.raises(UserError, match="other results"):
        export_onnx(network, torch.zeros(1, 3, 8, 8), tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


def test_missing_packages_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "find_spec", lambda _: None)
    with pytest.raises(UserError, match="pip install onnx"):
        export_onnx(nn.ReLU(), torch.zeros(1, 3, 8, 8), tmp_path / "a.onnx")


def test_without_onnx_runtime_nothing_is_checked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert export_onnx(nn.ReLU(), torch.zeros(1, 3, 8, 8), tmp_path / "a.onnx").relative_error is None
    assert (tmp_path / "a.onnx").exists()


def test_what_pytorch_cannot_write_is_one_line(tmp_path):
    class Loop(nn.Module):
        def forward(self, x):
            return torch.linalg.lstsq(x, x).solution

    with pytest.raises(UserError, match="cannot write this network") as caught:
        export_onnx(Loop(), torch.randn(1, 3, 8, 8), tmp_path / "a.onnx")
    assert "\n" not in str(caught.value)
