"""Our networks as QONNX: there and back the logits are the same bits; qonnx's own executor agrees."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import ftbnn
from ftbnn import zoo
from ftbnn.cli.main import main
from ftbnn.exchange.qonnx_export import export_qonnx
from ftbnn.exchange.qonnx_import import import_qonnx
from ftbnn.exchange.qonnx_model import parse
from ftbnn.exchange.qonnx_reference import run
from ftbnn.packing import pack
from ftbnn.packing.graph import AverageTo, Combine, Conv, Graph, Map, Steps, Value, Window
from ftbnn.packing.read import read_graph
from ftbnn.packing.write import InputInfo, encode

ROUNDING = 1e-5


def there_and_back(source, tmp_path):
    """(the file's outputs, those of what came back), on 8-bit images"""
    export_qonnx(source, tmp_path / "net.onnx")
    import_qonnx(tmp_path / "net.onnx", tmp_path / "back.ftbnn")
    model, back = ftbnn.load(source), ftbnn.load(tmp_path / "back.ftbnn")
    assert (back.name, back.mean, back.std, back.class_names) == (model.name, model.mean, model.std, model.class_names)
    channels, height, width = model.input_shape
    images = np.random.default_rng(0).integers(0, 256, (8, height, width, channels)).astype(np.uint8)
    return model(images), back(images)


@pytest.mark.parametrize("name", zoo.names())
def test_the_zoo_comes_back_bit_for_bit(name, tmp_path):
    source = zoo.resolve(f"zoo:{name}")
    model, back = there_and_back(source, tmp_path)
    assert np.array_equal(model, back)
    assert len(read_graph(tmp_path / "back.ftbnn").operators) == len(read_graph(source).operators)


class Everything(nn.Module):
    """What the zoo has not: groups that are uneven, curves, joined and moved channels, pools of other kinds."""

    def __init__(self):
        super().__init__()
        self.stem = ftbnn.nn.RoundedConv2d(3, 8, 3, padding=1, bits=8)
        self.first = ftbnn.nn.BConv(8, 8, 3, padding=1, groups=2)
        self.norm = nn.BatchNorm2d(8)
        self.uneven = ftbnn.nn.BConv(16, 7, 3, stride=2, padding=1, groups=3)
        self.head = nn.Linear(7, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.stem(x), 3, 1, 1)
        y = nn.functional.hardswish(self.norm(self.first(ftbnn.nn.Sign()(x))))
        y = torch.cat([nn.functional.silu(y), x.flip(1).clamp(-1, 2)], 1)
        y = self.uneven(ftbnn.nn.Sign(zero_one=True)(y))
        y = nn.functional.avg_pool2d(torch.tanh(y), 2, 1, 1, count_include_pad=False)
        return self.head(torch.sigmoid(y).mean((2, 3)))


def test_the_rest_of_the_format_too(tmp_path):
    torch.manual_seed(0)
    pack(Everything().eval(), torch.zeros(1, 3, 9, 9), tmp_path / "all.ftbnn", name="all", class_names=tuple("abcde"))
    model, back = there_and_back(tmp_path / "all.ftbnn", tmp_path)
    assert np.allclose(model, back, rtol=ROUNDING, atol=ROUNDING)  # two convolutions for uneven groups


def test_steps(tmp_path):
    image, out = Value(2, 1, 3), Value(2, 1, 3)
    steps = Steps("steps", (image,), out, thresholds=np.array([[-1.0, 0.0, 0.0], [0.5, 1.0, 1e30]], np.float32))
    (tmp_path / "steps.ftbnn").write_bytes(encode(Graph(image, out, (steps,)), InputInfo("s", (0, 0), (1, 1), 3, ())))
    x = np.array([[[[-1, -0.5, 0]], [[0.5, 0.75, 2]]], [[[0.0, 1e-45, 5]], [[1, 1.5, 1.2e30]]]], np.float32)
    expected = [[0, 1, 1, 0, 1, 2], [1, 3, 3, 1, 2, 3]]
    assert ftbnn.load(tmp_path / "steps.ftbnn")(x).tolist() == expected
    export_qonnx(tmp_path / "steps.ftbnn", tmp_path / "steps.onnx")
    assert run(parse((tmp_path / "steps.onnx").read_bytes()), x).reshape(2, -1).tolist() == expected
    import_qonnx(tmp_path / "steps.onnx", tmp_path / "back.ftbnn")
    assert ftbnn.load(tmp_path / "back.ftbnn")(x).tolist() == expected


def test_combine_and_map(tmp_path):
    """A gate by channel, one by position, a product of two maps, a constant factor for each position."""
    random, image = np.random.default_rng(0), Value(4, 5, 6)
    gate, mean, gated = Value(4, 1, 1), Value(1, 5, 6), Value(4, 5, 6)
    thin, twice, out = Value(4, 5, 6), Value(4, 5, 6), Value(4, 5, 6)
    window = Window((1, 1), (1, 1), (0, 0))
    operators = (
        AverageTo("gate", (image,), gate),
        Combine("gated", (image, gate), gated, is_sum=False),
        Conv("mean", (gated,), mean, window=window, groups=1, weights=(random.normal(size=(1, 4, 1, 1)),)),
        Combine("thin", (gated, mean), thin, is_sum=True),
        Combine("twice", (thin, gated), twice, is_sum=False),
        Map("map", (twice,), out, factors=random.normal(size=(5, 6))),
    )
    source = tmp_path / "all.ftbnn"
    source.write_bytes(encode(Graph(image, out, operators), InputInfo("c", (0,) * 4, (1,) * 4, 6, ())))
    model, back = there_and_back(source, tmp_path)
    assert np.array_equal(model, back)
    kinds = [type(it) for it in read_graph(tmp_path / "back.ftbnn").operators]
    assert kinds == [type(it) for it in operators]


def test_the_command(tmp_path, capsys):
    out = tmp_path / "digits.onnx"
    assert main(["export", "zoo:digits", "--format", "qonnx", "-o", str(out)]) == 0
    assert "same best class for 100.0%, largest error 0.0e+00" in capsys.readouterr().out
    assert main(["import", str(out), "-o", str(tmp_path / "digits.ftbnn")]) == 0
    assert main(["eval", str(tmp_path / "digits.ftbnn"), "--data", "digits"]) == 0
    assert "97.98" in capsys.readouterr().out  # as the zoo's card says


def test_qonnx_runs_and_cleans_it(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("qonnx")
    monkeypatch.setattr(onnx, "IR_VERSION", 10)  # onnx may be newer than what ONNX Runtime reads
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.util.cleanup import cleanup_model

    export_qonnx(zoo.resolve("zoo:digits"), tmp_path / "digits.onnx")
    onnx.checker.check_model(str(tmp_path / "digits.onnx"))
    wrapper = ModelWrapper(str(tmp_path / "digits.onnx"))
    wrapper.set_tensor_shape("input", [1, 1, 8, 8])
    wrapper = cleanup_model(wrapper)
    model = ftbnn.load("zoo:digits")
    images = np.random.default_rng(0).normal(size=(2, 1, 8, 8)).astype(np.float32)
    (start,), (end,) = (part for part in (wrapper.graph.input, wrapper.graph.output))
    for image in images:
        found = execute_onnx(wrapper, {start.name: image[None]})[end.name]
        assert np.allclose(found, model(image[None]), rtol=1e-4, atol=1e-4)


def test_neither_torch_nor_onnx_nor_qonnx_is_needed(tmp_path):
    """Into QONNX, back, and into C, with the light install."""
    code = """
import sys
sys.modules.update(torch=None, onnx=None, qonnx=None, brevitas=None)
from ftbnn.cli.main import main
for words in (
    ["export", "zoo:digits-small", "--format", "qonnx", "-o", "d.onnx"],
    ["import", "d.onnx", "-o", "d.ftbnn"],
    ["export", "d.ftbnn", "--format", "c", "-o", "c"],
    ["inspect", "d.ftbnn", "--mcu"],
):
    assert main(words) == 0, words
for words in (["export", "zoo:digits-small"], ["export", "d.ftbnn", "--format", "onnx"], ["export", "run"]):
    assert main(words) == 2, words
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stderr.count("is packed already: --format c and --format qonnx take it") == 2
    assert done.stderr.count("needs PyTorch") == 1
