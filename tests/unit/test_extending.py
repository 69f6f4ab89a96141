"""ARCHITECTURE.md's "Where do I add", row by row: the least that each kind of thing takes, and that it is there."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from qonnx_graphs import Net
from torch import nn

import ftbnn
from ftbnn import _native, data
from ftbnn.bench import peers
from ftbnn.cli.main import main
from ftbnn.data import ArraySplit, Source, Spec
from ftbnn.exchange import qonnx_reference, qonnx_rules
from ftbnn.exchange.qonnx_import import import_qonnx
from ftbnn.experiments import names, report, reproduce
from ftbnn.experiments.queue import Job
from ftbnn.experiments.result import Column, Findings, Table
from ftbnn.models import registry
from ftbnn.nn import BConv, Method, Rule, Sign, Signs, rules
from ftbnn.nn.methods import METHODS
from ftbnn.packing import graph, graph_module
from ftbnn.packing.convert import RULES
from ftbnn.packing.read import KINDS, read_graph

ROOT = Path(__file__).parents[2]


def module(monkeypatch, name, **contents):
    """A file of that name, without the file."""
    made = ModuleType(name)
    vars(made).update(contents)
    monkeypatch.setitem(sys.modules, name, made)
    return made


def test_a_method(monkeypatch, tmp_path):
    class MedianScaled(Signs):
        def scale(self, latent):
            return latent.abs().flatten(1).median(dim=1).values

    monkeypatch.setitem(METHODS, "median", Method("scaled by median magnitudes", signs=MedianScaled, act="prelu"))
    out = tmp_path / "run"
    words = ["train", "ftbnn18", "--method", "median", "--data", "digits", "--width", "4", "--set", "epochs=1"]
    assert main([*words, "--set", "backend=native", "--out", str(out)]) == 0
    assert main(["export", str(out), "-o", str(tmp_path / "file.ftbnn")]) == 0  # compares file and network


def test_an_operator_that_import_knows(monkeypatch, tmp_path):
    monkeypatch.setitem(qonnx_reference.OPERATORS, "Twice", lambda _, x: x + x)
    monkeypatch.setitem(qonnx_rules.RULES, "Twice", lambda call: call.function(call.x, "Mul", np.array(2.0)))
    net = Net(3)
    net.add("Twice")
    import_qonnx(net.bytes(), tmp_path / "net.ftbnn")  # compares file and nodes
    assert ftbnn.load(tmp_path / "net.ftbnn")(np.ones((1, 3, 1, 1), np.float32)).tolist() == [[2, 2, 2]]


def test_a_rule_of_gradients(monkeypatch):
    monkeypatch.setattr(rules, "RULES", dict(rules.RULES))

    class Everywhere(Rule):
        name = "everywhere"

        def primitive(self, x):
            return x

        def derivative(self, x):
            return torch.ones_like(x)

    x = torch.full((1, 3, 2, 2), 5.0, requires_grad=True)
    Sign(rule=Everywhere())(x).sum().backward()
    assert x.grad is not None
    assert x.grad.eq(1).all()


def test_a_network(monkeypatch, capsys):
    class Small(nn.Sequential):
        def __init__(self, *, classes, in_channels):
            super().__init__(
                nn.Conv2d(in_channels, 8, 3, padding=1),
                *(Sign(), BConv(8, 16, 3, padding=1), nn.BatchNorm2d(16)),
                *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes)),
            )

    entry = registry.Entry(Small, "three layers", image_size=32, has_stems=False, has_width=False, has_methods=False)
    monkeypatch.setitem(registry.REGISTRY, "small", entry)
    assert isinstance(ftbnn.build("small", classes=7), Small)
    assert main(["budget", "small"]) == 0
    assert "small" in capsys.readouterr().out


@dataclass
class Abs(graph.Operator):
    kind, title, note = 200, "abs", "magnitudes"


def test_an_operator_of_the_file(monkeypatch, tmp_path):
    """native/tests/example/abs.cc is its native half."""

    def rule(step):
        return step.emit(Abs(step.path, (step.read(step["self"]),), step.result()))

    monkeypatch.setitem(RULES, "abs", rule)
    monkeypatch.setitem(KINDS, Abs.kind, Abs)
    monkeypatch.setitem(graph_module.RUN, Abs, lambda _, __, x: x.abs())

    class Magnitudes(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            return self.conv(x).abs().mean((2, 3))

    network, path = Magnitudes().eval(), tmp_path / "abs.ftbnn"
    ftbnn.export(network, path, mean=(0, 0, 0), std=(1, 1, 1), image_size=(3, 9, 9))
    x = torch.randn(2, 3, 9, 9)
    expected = network(x).detach()
    torch.testing.assert_close(torch.from_numpy(ftbnn.load(path)(x.numpy())), expected)
    torch.testing.assert_close(graph_module.GraphModule(read_graph(path))(x), expected)
    assert graph.documented(Abs) == "| 200 | abs | - | magnitudes |"


def test_a_function_that_export_knows(monkeypatch, tmp_path):
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Softshrink(0.0))
    settings = {"mean": (0, 0, 0), "std": (1, 1, 1), "image_size": (3, 9, 9)}
    with pytest.raises(ftbnn.UserError, match="softshrink"):
        ftbnn.export(network, tmp_path / "file.ftbnn", **settings)
    monkeypatch.setitem(RULES, "softshrink", lambda step: step["self"])  # by nothing: all stays
    ftbnn.export(network, tmp_path / "file.ftbnn", **settings)


@pytest.mark.skipif("avx512bw" not in _native.capabilities()["features"], reason="its tiles are emulated by AVX-512")
def test_an_isa():
    """amx_emulated is one: three files under native/tests/emulated, a line in CMakeLists.txt, cpu.cc, three tables."""
    ask = "from ftbnn import _native; print(_native.capabilities()['kernels'])"
    asked = {**os.environ, "FTBNN_ISA": "amx_emulated"}
    kernels = subprocess.run([sys.executable, "-c", ask], env=asked, check=True, capture_output=True, text=True).stdout
    assert "'bconv': 'amx_emulated'" in kernels
    assert "'conv': 'avx512'" in kernels  # what an ISA has no kernel for, the next best does
    named = [p for p in (ROOT / "native").rglob("*.cc") if "amx_emulated" in p.read_text()]
    assert sorted(str(path.relative_to(ROOT / "native")) for path in named) == [
        "base/cpu.cc",
        *(f"kernels/{family}/table.cc" for family in ("bconv", "conv_grad", "stem")),
        *(f"tests/emulated/{family}__amx_emulated.cc" for family in ("bconv", "conv_grad", "stem")),
    ]


def noise():
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.randint(256, (40, 1, 8, 8), generator=generator), torch.arange(40) % 2
    split = ArraySplit(images.to(torch.uint8), labels)
    names = ("even", "odd")
    spec = Spec("noise", classes=2, channels=1, image_size=8, mean=(0.5,), std=(0.3,), class_names=names)
    return Source(spec, train=split, test=split)


def test_a_data_set(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(data.SOURCES, "noise", data.Entry(noise, "40 images of noise", False, 8))
    assert main(["data"]) == 0
    assert "40 images of noise" in capsys.readouterr().out
    words = ["train", "ftbnn18", "--data", "noise", "--width", "4", "--set", "epochs=1", "--set", "batch_size=8"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert main(["eval", str(tmp_path / "run")]) == 0


def test_an_experiment(monkeypatch, tmp_path):
    def jobs(request):
        return [Job("only", "ftbnn18", seed, request.width) for seed in range(request.seeds)]

    def show(request, records):  # noqa: ARG001
        return Findings([Table("seeds", "how many", (Column("runs", "runs"),), [{"runs": len(records)}])])

    module(monkeypatch, "ftbnn.experiments.count", TITLE="Count", ABOUT="Counts runs.", jobs=jobs, show=show)
    for user in (names, reproduce, report):
        monkeypatch.setattr(user, "EXPERIMENTS", (*names.EXPERIMENTS, "count"))
    assert main(["reproduce", "count", "--scale", "quick", "--out", str(tmp_path / "count")]) == 0
    assert report.collect(tmp_path)["count"]["tables"][0]["rows"] == [{"runs": 1}]


def test_an_engine_to_compare_with(monkeypatch):
    module(monkeypatch, "ftbnn.bench.peers.numpy_peer", contenders=lambda *_: iter(()))
    monkeypatch.setitem(peers.PEERS, "numpy", "numpy_peer")
    peers.check(["numpy"])
    peer = peers.load("numpy")
    assert peer is not None
    assert list(peer.contenders([], None, 1, np.zeros((1, 3, 8, 8)))) == []


def test_the_table_names_files_that_are_there():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = text.split("## Where do I add")[1].split("tests/unit/test_extending.py")[0]
    folders = ("src/ftbnn", "native", "")
    for word in rows.replace("NAME__ISA.cc", "").split("`")[1::2]:
        if "NAME" in word or "FAMILY" in word or "/" not in word:
            continue
        assert any((ROOT / folder / word).exists() for folder in folders), word
