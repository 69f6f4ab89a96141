"""A non-linearity before the shortcut (version 5): where it is folded, the bytes, what is refused, and the way back."""

import struct

import numpy as np
import pytest
import torch
from export_networks import Forward, export_and_read, outputs, randomise
from reader import sealed
from torch import nn

from ftbnn.models import build
from ftbnn.nn import BConv, FPReLU, Sign
from ftbnn.packing import build_graph, pack
from ftbnn.packing.graph import Epilogue, Graph, Pointwise, Value
from ftbnn.packing.graph_module import GraphModule
from ftbnn.packing.read import read_graph
from ftbnn.packing.restore import restore
from ftbnn.packing.write import InputInfo, encode
from ftbnn.runtime import FormatError, load

FLOAT32_ROUNDING = 1e-6
PIECES = {"relu": nn.ReLU, "prelu": lambda: nn.PReLU(4), "fprelu": lambda: FPReLU(4)}
x = torch.zeros(1, 4, 6, 5)


def check(forward, **layers):
    module = randomise(Forward(forward, **layers).double())
    found, expected, file = outputs(module, torch.randn(2, *x.shape[1:], dtype=torch.float64))
    torch.testing.assert_close(found, expected, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING)
    return file


def conv():
    return BConv(4, 4, input=Sign())


@pytest.mark.parametrize("first", PIECES)
@pytest.mark.parametrize("last", [nn.Identity, nn.ReLU, nn.Hardtanh, nn.Tanh])
def test_a_block_with_a_non_linearity_on_both_sides_of_the_shortcut_is_one_operator(first, last):
    file = check(
        lambda m, x: m.last(m.first(m.norm(m.conv(x))) + x),
        conv=conv(),
        norm=nn.BatchNorm2d(4),
        first=PIECES[first](),
        last=last(),
    )
    (operator,) = file.operators
    assert file.version == 5
    assert operator.shortcut == 0
    assert operator.act == {"Identity": "none", "ReLU": "relu", "Hardtanh": "clamp", "Tanh": "tanh"}[last.__name__]


def test_what_is_added_behind_the_pieces_is_added_behind_the_shortcut():
    file = check(lambda m, x: x + (m.first(m.conv(x)) + m.offset), conv=conv(), first=nn.PReLU(4), offset=offset())
    (operator,) = file.operators
    assert operator.after is not None
    assert operator.shift is None


def offset():
    return nn.Parameter(torch.randn(4, 1, 1))


@pytest.mark.parametrize(
    ("forward", "kinds"),
    [
        (lambda m, x: m.last(m.first(m.conv(x)) + m.offset + x), ["bconv", "pointwise"]),  # two places to add at
        (lambda m, x: m.norm(m.first(m.conv(x)) + x), ["bconv", "pointwise"]),  # a scale of the sum
        (lambda m, x: m.first(m.conv(x)) + x + m.last(x), ["bconv", "pointwise"]),  # two shortcuts
        (lambda m, x: m.first(m.first(m.conv(x)) + x) + x, ["bconv", "pointwise"]),  # twice
        (lambda m, x: m.curve(m.conv(x)) + x, ["bconv", "pointwise"]),  # no straight pieces
    ],
)
def test_what_does_not_fit_stays_an_operator(forward, kinds):
    layers = {"first": nn.PReLU(4), "last": nn.ReLU(), "norm": nn.BatchNorm2d(4), "curve": nn.Tanh()}
    assert sorted(check(forward, conv=conv(), offset=offset(), **layers).kinds) == sorted(kinds)


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: m.first(m.conv(x)) + m.other(x),
        lambda m, x: m.last(m.first(m.conv(x)) + m.other(x)),
        lambda m, x: m.slopes(m.first(m.conv(x)) + m.other(x)),
        lambda m, x: m.norm(m.first(m.conv(x)) + m.other(x)),
    ],
)
def test_where_another_summand_can_take_the_addition_the_file_stays_of_version_1(forward):
    layers = {"first": nn.PReLU(4), "last": nn.ReLU(), "slopes": FPReLU(4), "norm": nn.BatchNorm2d(4)}
    assert check(forward, conv=conv(), other=conv(), **layers).version == 1


def test_a_shift_behind_all_is_added_behind_all():
    file = check(lambda m, x: m.first(m.conv(x)) + x + m.offset, conv=conv(), first=nn.PReLU(4), offset=offset())
    (operator,) = file.operators
    assert operator.after is not None


@pytest.mark.parametrize(
    ("method", "most"), [("xnor", 0), ("xnorpp", 0), ("group-net", 0), ("real-to-bin", 16), ("xnor-k", 48)]
)
def test_methods_with_a_non_linearity_before_the_shortcut_have_few_operators_beside(method, most):
    network = build("ftbnn18", method=method, width=8, classes=3, stem="small", image_size=16).eval()
    graph = build_graph(network, torch.zeros(1, 3, 16, 16))
    assert sum(isinstance(operator, Pointwise) for operator in graph.operators) <= most
    assert any(operator.version == 5 for operator in graph.operators)


def hand_made():
    image = Value(2, 1, 1)
    ends = Epilogue(first_left=np.array([0.5, 0.0]), first_right=np.array([1.0, 2.0]), shortcut=image)
    out = Value(2, 1, 1)
    return encode(Graph(image, out, (Pointwise("end", (image,), out, ends),)), InputInfo("made", (0, 0), (1, 1), 1, ()))


def test_the_bytes():
    data = hand_made()
    graph_bytes, offset = struct.unpack_from("<QQ", data, 16)
    assert struct.unpack_from("<I", data, 8) == (5,)
    head = bytes([9]) + struct.pack("<I", 3) + b"end" + struct.pack("<3I", 1, 0, 1)
    end = bytes([4 | 16, 0]) + struct.pack("<I", 0) + struct.pack("<4Q", 0, 8, 64, 8)
    assert data[64 : 64 + graph_bytes].endswith(head + end)
    assert struct.unpack_from("<2f", data, offset) == (0.5, 0.0)
    assert struct.unpack_from("<2f", data, offset + 64) == (1.0, 2.0)
    given = np.array([[[[-2.0]], [[3.0]]]], np.float32)
    assert load(data)(given).tolist() == [[-3.0, 9.0]]


def test_what_is_out_of_range_is_refused():
    data = hand_made()
    offset = struct.unpack_from("<Q", data, 24)[0]
    at_flags = data.index(bytes([4 | 16, 0]) + struct.pack("<I", 0))
    for at, change, message in (
        (8, b"\x04", "unknown epilogue 20"),
        (at_flags, b"\x24", "unknown epilogue 36"),
        (offset, struct.pack("<f", float("inf")), "first left slope has numbers that are not finite"),
        (offset + 64, struct.pack("<f", float("nan")), "first right slope has numbers that are not finite"),
    ):
        with pytest.raises(FormatError, match=message):
            load(sealed(data, at, change))


@pytest.mark.parametrize("last", ["none", "relu", "hardtanh", "prelu", "fprelu"])
@pytest.mark.parametrize("first", PIECES)
def test_both_non_linearities_take_their_numbers_back(first, last, tmp_path):
    acts = {"none": nn.Identity, "hardtanh": nn.Hardtanh, **PIECES}

    def made():
        layers = {"conv": conv(), "norm": nn.BatchNorm2d(4), "first": PIECES[first](), "last": acts[last]()}
        return Forward(lambda m, x: m.last(m.first(m.norm(m.conv(x))) + x), **layers)

    network, images = randomise(made()).eval(), torch.randn(4, *x.shape[1:])
    pack(network, images, tmp_path / "net.ftbnn")
    again = made()
    assert restore(again, read_graph(tmp_path / "net.ftbnn"), "net.ftbnn", [images]) == []
    torch.testing.assert_close(again.eval()(images), network(images), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["xnor", "xnorpp"])
def test_training_goes_on_from_a_file(method, tmp_path):
    torch.manual_seed(0)
    settings = {"classes": 3, "width": 4, "stem": "small", "method": method}
    network, images = randomise(build("ftbnn18", **settings)).eval(), torch.randn(4, 3, 16, 16)
    pack(network, images, tmp_path / "net.ftbnn")
    graph, again = read_graph(tmp_path / "net.ftbnn"), build("ftbnn18", **settings)
    assert restore(again, graph, "net.ftbnn", [images]) == []
    expected = network(images)
    torch.testing.assert_close(again.eval()(images), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    torch.testing.assert_close(GraphModule(graph)(images), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_files_without_it_are_of_earlier_versions():
    assert export_and_read(Forward(lambda m, x: m.first(m.conv(x) + x), conv=conv(), first=nn.ReLU()), x).version == 1
