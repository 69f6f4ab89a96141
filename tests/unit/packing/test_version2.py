"""What version 2 of the file has: thresholds, additions behind, clamps and curves, in the file and in the engine."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from export_networks import Forward, build_small, export_and_read, make_dyadic, outputs, randomise
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ftbnn import _native
from ftbnn.nn import BasicBlock, BConv, FPReLU, Sign, sign
from ftbnn.nn.methods.reactnet import RPReLU, RSign
from ftbnn.packing import ExportError, build_graph, pack
from ftbnn.packing.graph import ACTS, OPERATORS, documented
from ftbnn.packing.graph_module import GraphModule
from ftbnn.packing.read import read_graph
from ftbnn.runtime import load

DOCS = Path(__file__).parents[3] / "docs"
FLOAT32_ROUNDING = 1e-6
# The engine's exponential is right to 2e-7: sigmoid and silu to 4e-7 of their value, tanh to 2e-7 of 1.
RELATIVE, ABSOLUTE = 4e-7, 2e-7
SAMPLES = torch.cat(
    [torch.linspace(-20, 20, 4001), *(side * torch.logspace(-6, 4, 200) for side in (1, -1)), torch.tensor([0.0, -0.0])]
)

# (what, the name of its act in the file)
FUNCTIONS = {
    "Hardtanh": (nn.Hardtanh(), "clamp"),
    "Hardtanh, own ends": (nn.Hardtanh(-0.25, 2.5), "clamp"),
    "in place": (nn.Hardtanh(inplace=True), "clamp"),
    "ReLU6": (nn.ReLU6(), "clamp"),
    "clamp": (Forward(lambda _, x: x.clamp(-1, 0.5)), "clamp"),
    "clamp below": (Forward(lambda _, x: x.clamp(min=-0.5)), "clamp"),
    "clamp above": (Forward(lambda _, x: torch.clamp_max(x, 0.75)), "clamp"),
    "clamp at 0": (Forward(lambda _, x: x.clamp_min(0)), "relu"),
    "Hardswish": (nn.Hardswish(), "hardswish"),
    "Hardsigmoid": (nn.Hardsigmoid(), "hardsigmoid"),
    "Sigmoid": (nn.Sigmoid(), "sigmoid"),
    "SiLU": (nn.SiLU(), "silu"),
    "Tanh": (nn.Tanh(), "tanh"),
    "functions": (Forward(lambda _, x: F.silu(x)), "silu"),
}


@pytest.fixture(params=_native.capabilities()["engine_isas"])
def isa(request, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", request.param)
    return request.param


def check(module, *shape):
    """The file, once its own interpreter and the engine have given the module's outputs."""
    found, expected, file = outputs(randomise(module.double()), torch.randn(2, *shape, dtype=torch.float64))
    torch.testing.assert_close(found, expected, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING)
    return file


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_engine_computes_each_function(name, isa, tmp_path):  # noqa: ARG001
    function, act = FUNCTIONS[name]
    x = F.pad(SAMPLES, (0, -len(SAMPLES) % 16)).view(16, 1, 1, -1)
    pack(function, x[:1], tmp_path / "a.ftbnn")
    found = torch.from_numpy(load(tmp_path / "a.ftbnn", threads=1)(x.numpy())).flatten().double()
    wanted = function(x.double()).flatten()
    error = (found - wanted).abs()
    assert (error <= RELATIVE * wanted.abs() + (ABSOLUTE if act == "tanh" else 1e-12)).all()
    (operator,) = read_graph(tmp_path / "a.ftbnn").operators
    assert operator.epilogue.act == act


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_end_blocks(name):
    """Behind BatchNorm and shortcut, before the next signs, and with something added behind."""
    function, act = FUNCTIONS[name]
    network = Forward(
        lambda m, x: m.second(m.act(m.norm(m.first(x)) + x) + m.offset),
        first=BConv(4, 4, input=Sign()),
        norm=nn.BatchNorm2d(4),
        act=function,
        second=BConv(4, 4, input=Sign()),
        offset=nn.Parameter(torch.randn(4, 1, 1)),
    )
    file = check(network, 4, 6, 5)
    assert file.kinds == ["bconv", "bconv"]
    first = file.operators[0]
    assert first.act == act
    torch.testing.assert_close(first.after, network.offset.data.flatten())


def test_the_engine_cuts_overflows_as_pytorch_does(tmp_path):
    network, zeros = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.ReLU()), torch.zeros(1, 1, 1, 3)
    network[0].weight.data.fill_(3e38)
    pack(network, zeros, tmp_path / "a.ftbnn", samples=zeros)
    x = torch.tensor([-10.0, 1.0, 10.0]).view(1, 1, 1, 3)
    assert (
        load(tmp_path / "a.ftbnn")(x.numpy()).tolist()
        == network(x).flatten(1).tolist()
        == [[0, np.float32(3e38), np.inf]]
    )


def test_every_function_of_the_file_is_tried_here():
    assert {act for _, act in FUNCTIONS.values()} | {"none", "prelu", "fprelu"} == set(ACTS)


def version_of(module, x):
    return export_and_read(module, x).version


def test_files_are_of_version_1_as_long_as_they_can_be():
    x = torch.zeros(1, 4, 6, 6)
    for act in ("relu", "prelu", "fprelu", "none"):
        assert version_of(BasicBlock(4, act=act, follows_relu=False), x) == 1
    assert (
        version_of(Forward(lambda m, x: m.conv(sign(m.norm(x) + 0.5)), norm=nn.Conv2d(4, 4, 1), conv=BConv(4, 4)), x)
        == 1
    )
    assert version_of(nn.Sequential(RSign(4), BConv(4, 4)), x) == 2
    assert version_of(RPReLU(4), x) == 2
    assert version_of(nn.Hardtanh(), x) == 2


def test_what_a_sign_adds_is_the_threshold_of_its_convolution():
    """x itself is wanted for the shortcut, so nothing before could take the addition."""
    block = BasicBlock(4, act=RPReLU, follows_relu=False, method="reactnet")
    (operator,) = check(block, 4, 6, 6).operators
    torch.testing.assert_close(operator.threshold, -block.conv.input.bias.data)
    assert operator.shortcut == 0


def test_a_threshold_is_exact():
    """x + b > 0 and x > -b are the same for all floats: the neighbours of -b too."""
    conv = BConv(1, 1, 1, padding=0, input=RSign(1))
    conv.weight.data.fill_(1.0)
    near = np.float32(0.1)
    conv.input.bias.data.fill_(-float(near))
    values = [np.nextafter(near, np.float32(-1)), near, np.nextafter(near, np.float32(1))]
    x = torch.tensor(np.array(values, np.float32)).view(1, 1, 1, 3)
    file = export_and_read(conv, x)
    assert file.run(x.double()).flatten().tolist() == conv(x).flatten().tolist() == [-1, -1, 1]


def test_several_convolutions_may_have_one_threshold():
    network = Forward(
        lambda m, x: torch.cat([m.a(s := m.sign(x)), m.b(s)], 1), sign=RSign(4), a=BConv(4, 3), b=BConv(4, 5)
    )
    file = check(network, 4, 5, 5)
    assert file.kinds == ["bconv", "bconv", "concat"]
    assert torch.equal(file.operators[0].threshold, file.operators[1].threshold)
    assert file.operators[0].inputs == file.operators[1].inputs == [0]


def test_an_addition_that_somebody_else_reads_stays_one():
    parts = {"conv": BConv(4, 4), "offset": nn.Parameter(torch.randn(4, 1, 1))}
    network = Forward(lambda m, x: m.conv(sign(y := x + m.offset)) + y, **parts)
    file = check(network, 4, 5, 5)
    assert file.kinds == ["pointwise", "bconv"]
    assert file.operators[1].threshold is None
    alone = Forward(
        lambda m, x: m.conv(sign(x + m.offset)), conv=BConv(4, 4), offset=nn.Parameter(torch.randn(4, 1, 1))
    )
    (operator,) = check(alone, 4, 5, 5).operators
    torch.testing.assert_close(operator.threshold, -alone.offset.data.flatten())


def test_thresholds_move_with_their_channels_and_through_pools():
    def forward(m, x):
        codes = F.max_pool2d(m.sign(x), 2)
        return m.conv(torch.cat([codes, codes[:, 1:3]], 1))

    check(Forward(forward, sign=RSign(4), conv=BConv(6, 3, groups=2)), 4, 8, 8)


@pytest.mark.parametrize("channels", [3, 50, 64, 88, 130])
def test_each_copy_of_a_channel_has_its_own_threshold(isa, channels, tmp_path):  # noqa: ARG001
    """Whose codes begin anywhere in a word. Whole numbers, so that one other bit would show."""
    torch.manual_seed(0)
    wide = 2 * channels + channels // 3
    network = Forward(
        lambda m, x: m.conv(torch.cat([x := m.stem(x), x, x[:, : channels // 3]], 1)),
        stem=nn.Conv2d(2, channels, 1, bias=False),
        conv=BConv(wide, 7, input=RSign(wide)),
    ).eval()
    with torch.no_grad():
        network.stem.weight.copy_(torch.randint(-2, 3, network.stem.weight.shape))
        network.conv.input.bias.copy_(torch.randint(-3, 4, (wide,)) + 0.5)
        network.conv.weight.copy_(torch.randint(0, 2, network.conv.weight.shape) - 0.5)
        x = torch.randint(-2, 3, (2, 2, 5, 6)).float()
        pack(network, x, tmp_path / "network.ftbnn")
        expected = network(x).flatten(1).numpy()
    for threads in (1, 3):
        assert np.array_equal(load(tmp_path / "network.ftbnn", threads=threads)(x.numpy()), expected)


class Copies(nn.Module):
    """A binary convolution whose channels a strided one reads in several orders, each with a threshold, and a pool."""

    def __init__(self, channels, groups, *, others):
        super().__init__()
        self.stem = nn.Conv2d(2, channels, 1, bias=False)
        self.first = BConv(channels, channels, groups=groups)
        half = channels // 2
        order = torch.cat([torch.arange(half, channels), torch.arange(half)])  # once each, in two pieces
        self.order = torch.cat([order, torch.arange(channels), torch.arange(channels // 3)])
        wide = len(self.order)
        self.second = BConv(wide, 7, 3, stride=2, padding=1, groups=2, input=RSign(wide))
        self.third = BConv(channels, 3, 3, stride=2, padding=1, input=RSign(channels)) if others else None
        self.pool = nn.MaxPool2d(3, 2, 1)
        for layer in self.modules():
            for numbers in layer.parameters(recurse=False):
                whole = torch.randint(-3, 3, numbers.shape)
                numbers.data = whole.float() if isinstance(layer, nn.Conv2d) else whole + 0.5

    def forward(self, x):
        x = self.first(self.stem(x))
        parts = [self.second(x[:, self.order]), self.pool(x[:, self.order])]
        return torch.cat(parts if self.third is None else [*parts, self.third(x)], 1)


@pytest.mark.parametrize("others", [False, True], ids=["", "two sets of thresholds"])
@pytest.mark.parametrize("sizes", [(6, 1, 9), (50, 2, 30), (64, 1, 7), (200, 3, 5), (130, 1, 17)])
def test_codes_are_written_once_for_each_threshold(isa, sizes, others, tmp_path):  # noqa: ARG001
    """With the pool beside them and by any number of threads. Whole numbers, so that one other bit would show."""
    torch.manual_seed(0)
    channels, groups, side = sizes
    network, x = Copies(channels, groups, others=others).eval(), torch.randint(-2, 3, (2, 2, side, side + 1)).float()
    file = tmp_path / "network.ftbnn"
    pack(network, x, file)
    with torch.no_grad():
        expected = network(x).flatten(1).numpy()
    for threads in (1, 2, 5):
        assert np.array_equal(load(file, threads=threads)(x.numpy()), expected)


class Repeated(nn.Module):
    """One channel many times, each with a threshold of its own."""

    def __init__(self, times):
        super().__init__()
        self.stem, self.times = nn.Conv2d(1, 1, 1, bias=False), times
        self.conv = BConv(times, 3, input=RSign(times))
        self.stem.weight.data.fill_(1.0)
        self.conv.input.bias.data = torch.arange(times) % 7 - 3.5

    def forward(self, x):
        return self.conv(self.stem(x).repeat(1, self.times, 1, 1))


def test_as_many_copies_as_there_are_channels(tmp_path):
    """In time and memory that grow with the channels, not with their square."""
    network, x = Repeated(5000).eval(), torch.randint(-3, 4, (1, 1, 4, 5)).float()
    pack(network, x, tmp_path / "network.ftbnn")
    with torch.no_grad():
        assert np.array_equal(load(tmp_path / "network.ftbnn")(x.numpy()), network(x).flatten(1).numpy())


def test_thresholds_of_codes_after_a_relu():
    network = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), RSign(6, zero_one=True), BConv(6, 4, groups=3), RPReLU(4))
    file = check(network, 3, 7, 7)
    assert file.kinds == ["conv", "bconv"]
    assert file.operators[1].zero_one


@st.composite
def chains(draw):
    """A few blocks of odd sizes whose numbers are exact in any order, and an input."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    widths = [draw(st.sampled_from([1, 3, 17, 33, 64, 70])) for _ in range(draw(st.integers(2, 4)))]
    layers = []
    for inputs, out in pairwise(widths):
        zero_one, groups = draw(st.booleans()), draw(st.integers(1, min(3, inputs, out)))
        codes = draw(st.sampled_from([RSign(inputs, zero_one=zero_one), Sign(zero_one=zero_one)]))
        layers += [BConv(inputs, out, draw(st.sampled_from([1, 3, (3, 1)])), groups=groups, input=codes)]
        acts = [RPReLU(out), nn.Hardtanh(-2, 3), nn.ReLU6(), FPReLU(out), nn.Identity()]
        layers += [nn.BatchNorm2d(out), draw(st.sampled_from(acts))]
    size = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return make_dyadic(nn.Sequential(*layers).double()).eval(), torch.randint(-3, 4, (2, widths[0], *size)).double()


@given(made=chains())
def check_chains(made):
    network, x = made
    with TemporaryDirectory() as folder:
        pack(network, x, Path(folder) / "a.ftbnn")
        found = load(Path(folder) / "a.ftbnn", threads=1)(x.float().numpy())
    assert np.array_equal(found, network(x).flatten(1).detach().numpy())


def test_thresholds_and_ends_agree_to_the_last_bit(isa):  # noqa: ARG001
    check_chains()


@pytest.mark.parametrize("method", ["reactnet", "irnet"])
def test_a_file_as_pytorch_module_and_back(method, tmp_path):
    network, x = build_small("ftbnn18", "small", method)
    pack(randomise(network).float().eval(), x.float(), tmp_path / "a.ftbnn")
    graph = read_graph(tmp_path / "a.ftbnn")
    with torch.no_grad():
        expected, found = network(x.float()), GraphModule(graph)(x.float())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())
    written = build_graph(network, x.float())
    assert [operator.version for operator in graph.operators] == [operator.version for operator in written.operators]


@pytest.mark.parametrize("number", [float("nan"), 1e300])
def test_numbers_that_float32_cannot_hold_are_named(number, tmp_path):
    network = nn.Sequential(RSign(4), BConv(4, 4), RPReLU(4)).double()
    network[0].bias.data[1] = number
    with pytest.raises(ExportError, match="1: its threshold is not finite"):
        pack(network, torch.zeros(1, 4, 5, 5, dtype=torch.float64), tmp_path / "a.ftbnn")


def test_openvino_says_what_it_is_not_given(tmp_path):
    pytest.importorskip("openvino")
    from ftbnn.bench.peers.openvino_binary import binary_model
    from ftbnn.errors import UserError

    pack(nn.Sequential(RSign(8), BConv(8, 8), FPReLU(8)), torch.zeros(1, 8, 5, 5), tmp_path / "a.ftbnn")
    with pytest.raises(UserError, match="no binary row: 1 has a threshold") as caught:
        binary_model(read_graph(tmp_path / "a.ftbnn"), batch=1)
    assert "\n" not in str(caught.value)


def test_the_document_has_every_operator_and_function():
    text = (DOCS / "format.md").read_text()
    for operator in OPERATORS:
        assert documented(operator) in text.splitlines()
    for number, act in enumerate(ACTS):
        assert f"| {number} | {act}" in text


def test_the_page_that_errors_name_is_there_and_says_what_to_do():
    with pytest.raises(
        ExportError, match=r"gelu cannot be written into a .ftbnn file \(docs/export.md .* ONNX holds more"
    ):
        build_graph(nn.GELU(), torch.zeros(1, 1, 2, 2))
    page = (DOCS / "export.md").read_text()
    assert "--format onnx" in page
    for word in ("Hardtanh", "Hardswish", "Hardsigmoid", "Sigmoid", "SiLU", "Tanh", "ReLU6", "GELU", "dilation"):
        assert word in page
