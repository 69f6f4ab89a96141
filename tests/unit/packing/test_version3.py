"""Rounded convolutions in the file (version 3): the bytes, what is refused, the engine, and the way back."""

import struct
from itertools import pairwise

import numpy as np
import pytest
import torch
from export_networks import export_and_read, outputs, randomise
from reader import sealed
from torch import nn

from ftbnn.budget import count
from ftbnn.models import build
from ftbnn.nn import RoundedConv2d
from ftbnn.nn.rounded import BITS, whole_numbers
from ftbnn.packing import build_graph, pack
from ftbnn.packing.graph import Epilogue, Graph, RoundedConv, Value, Window
from ftbnn.packing.graph_module import GraphModule
from ftbnn.packing.read import read_graph
from ftbnn.packing.restore import restore
from ftbnn.packing.write import InputInfo, encode
from ftbnn.runtime import FormatError, load

FLOAT32_ROUNDING = 1e-5  # scales, units and sums of some hundred products
every_size = pytest.mark.parametrize("bits", BITS)
INFO = InputInfo("hand-made", (0.0,), (1.0,), 3, ())


def hand_made(integers=((1, -2, 3),), unit=(0.5,), bits=8):
    image, out = Value(1, 1, 3), Value(1, 1, 1)
    weights = np.array(integers, f"i{bits // 8}").reshape(1, 1, 1, 3)
    window = Window((1, 3), (1, 1), (0, 0))
    numbers = {"bits": bits, "integers": (weights,), "unit": np.array(unit)}
    conv = RoundedConv("conv", (image,), out, Epilogue(), window=window, groups=1, **numbers)
    return encode(Graph(image, out, (conv,)), INFO)


@every_size
def test_the_bytes(bits):
    data = hand_made(bits=bits)
    graph_bytes, offset, payload_bytes = struct.unpack_from("<QQQ", data, 16)
    assert struct.unpack_from("<I", data, 8) == (3,)
    expected = struct.pack("<3b" if bits == 8 else "<3h", 1, -2, 3)
    assert data[offset:] == expected + bytes(64 - len(expected)) + struct.pack("<f", 0.5)
    window, groups = struct.pack("<6I", 1, 3, 1, 1, 0, 0), struct.pack("<I", 1)
    blobs = struct.pack("<4Q", 0, len(expected), 64, 4)
    path = struct.pack("<I", 4) + b"conv"
    operator = bytes([11]) + path + struct.pack("<3I", 1, 0, 1) + window + groups + bytes([bits]) + blobs + bytes(2)
    assert data[64 : 64 + graph_bytes].endswith(operator)
    assert payload_bytes == 68
    assert load(data)(np.array([[[[1.0, 10.0, 100.0]]]], np.float32)).item() == 0.5 * (1 - 20 + 300)


def test_what_is_out_of_range_is_refused():
    data = hand_made()
    offset = struct.unpack_from("<Q", data, 24)[0]
    at_bits = data.index(struct.pack("<7I", 1, 3, 1, 1, 0, 0, 1)) + 28
    for at, change, message in (
        (offset, b"\x80", "a rounded weight is out of range"),
        (offset + 64, struct.pack("<f", 0), "a unit is not positive"),
        (offset + 64, struct.pack("<f", -1), "a unit is not positive"),
        (offset + 64, struct.pack("<f", float("nan")), "not finite"),
        (at_bits, b"\x07", "8 or 16 bits"),
        (at_bits, b"\x20", "unknown number of bits 32"),
        (at_bits, b"\x10", "weights has 3 bytes, not 6"),
        (8, b"\x02", "unknown kind 11"),
        (8, b"\x06", "version 6"),
    ):
        with pytest.raises(FormatError, match=message):
            load(sealed(data, at, change))
    with pytest.raises(FormatError, match="out of range"):
        load(hand_made(((0, -32768, 0),), bits=16))


@every_size
@pytest.mark.parametrize(
    ("name", "stem"), [("ftbnn18", "imagenet"), ("ftbnn-d18-g3-v3", "small"), ("resnet18", "small")]
)
def test_networks_compute_from_their_file_what_the_module_computes(name, stem, bits):
    torch.manual_seed(0)
    width = {} if "-d" in name else {"width": 4}
    network = randomise(build(name, classes=5, stem=stem, stem_bits=bits, **width).double())
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    found, expected, _ = outputs(network, x)
    torch.testing.assert_close(found, expected, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING * expected.abs().max())


@every_size
def test_what_is_written_is_what_training_multiplies_with(bits, tmp_path):
    conv = RoundedConv2d(3, 5, 3, 2, 1, groups=1, bits=bits).eval()
    file = export_and_read(conv, torch.zeros(1, 3, 9, 9))
    integers, unit = whole_numbers(conv.weight.detach(), bits)
    assert (file.version, file.kinds) == (3, ["rounded conv"])
    assert torch.equal(file.operators[0].unit.float(), unit)
    assert torch.equal(file.operators[0].weights[0] / file.operators[0].unit.view(-1, 1, 1, 1), integers.double())
    pack(conv, torch.zeros(1, 3, 9, 9), tmp_path / "conv.ftbnn")
    graph, x = read_graph(tmp_path / "conv.ftbnn"), torch.randn(2, 3, 9, 9)
    torch.testing.assert_close(GraphModule(graph)(x), conv(x).flatten(1), rtol=0, atol=1e-6)
    row = load(tmp_path / "conv.ftbnn").operators()[0]
    assert (row["kind"], row["weight_bits"], row["weight_bytes"]) == ("rounded conv", bits, 135 * bits // 8)


def test_groups_have_their_units(tmp_path):
    network, x = RoundedConv2d(6, 9, 3, groups=3, bits=8).eval(), torch.randn(2, 6, 7, 7)
    pack(network, x, tmp_path / "groups.ftbnn")
    torch.testing.assert_close(torch.from_numpy(load(tmp_path / "groups.ftbnn")(x.numpy())), network(x).flatten(1))


def test_a_file_is_as_small_as_its_budget_says(tmp_path):
    sizes = []
    for bits in (None, 16, 8):
        network = build("ftbnn18", classes=3, width=64, stem_bits=bits).eval()
        report = pack(network, torch.zeros(1, 3, 64, 64), tmp_path / "net.ftbnn")
        sizes.append((report.size_bytes, count(network, (3, 64, 64)).packed_bytes))
    for (size, counted), (next_size, next_counted) in pairwise(sizes):
        assert abs((size - next_size) - (counted - next_counted)) < 256  # blobs begin at multiples of 64


@every_size
@pytest.mark.parametrize("stem", ["imagenet", "small"])
def test_training_goes_on_from_a_file(bits, stem, tmp_path):
    torch.manual_seed(0)
    settings = {"classes": 3, "width": 4, "stem": stem, "stem_bits": bits}
    network = randomise(build("ftbnn18", **settings)).eval()
    x = torch.randn(4, 3, 32, 32)
    pack(network, x, tmp_path / "net.ftbnn")
    again = build("ftbnn18", **settings)
    assert restore(again, read_graph(tmp_path / "net.ftbnn"), "net.ftbnn", [x]) == []
    own, other = (build_graph(each.eval(), x).operators[0] for each in (network, again))
    assert np.array_equal(own.integers[0], other.integers[0])
    torch.testing.assert_close(again.eval()(x), network(x), rtol=1e-3, atol=1e-3)


def test_a_file_of_other_bits_is_another_network(tmp_path):
    network = build("ftbnn18", classes=3, width=4, stem="small", stem_bits=8).eval()
    pack(network, torch.zeros(1, 3, 32, 32), tmp_path / "net.ftbnn")
    for bits in (None, 16):
        other = build("ftbnn18", classes=3, width=4, stem="small", stem_bits=bits)
        with pytest.raises(Exception, match=r"another network, or stem: its stem.conv differs"):
            restore(other, read_graph(tmp_path / "net.ftbnn"), "net.ftbnn")


def test_a_bias_comes_back(tmp_path):
    network = nn.Sequential(RoundedConv2d(3, 4, 3, bits=8), nn.ReLU()).eval()
    x = torch.randn(2, 3, 6, 6)
    pack(network, x, tmp_path / "net.ftbnn")
    again = nn.Sequential(RoundedConv2d(3, 4, 3, bits=8), nn.ReLU())
    restore(again, read_graph(tmp_path / "net.ftbnn"), "net.ftbnn")
    torch.testing.assert_close(again(x), network(x))
