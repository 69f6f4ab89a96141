"""ONNX files that are not what they say: one clear line, nothing allocated for it, nothing else read."""

import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from qonnx_graphs import Net

from ftbnn import zoo
from ftbnn.errors import UserError
from ftbnn.exchange.qonnx_import import import_qonnx
from ftbnn.exchange.qonnx_model import parse, read_bytes
from ftbnn.exchange.qonnx_node import ImportRefused
from ftbnn.exchange.qonnx_proto import NotOnnx, decode, encode

MEMORY = 3 * 2**30  # PyTorch and the engine, and little more


@pytest.fixture
def net():
    made = Net(2, 4, 4)
    made.add("BipolarQuant", 1.0)
    made.add("Conv", np.ones((3, 2, 3, 3)))
    made.add("MultiThreshold", [[0.0, 1.0]])
    return made


def picture(kind):
    made = BytesIO()
    Image.new("RGB", (40, 40), (200, 9, 9)).save(made, kind)
    return made.getvalue()


def refused(data):
    """The one line that it is refused with."""
    with pytest.raises(UserError) as caught:
        import_qonnx(data, "/nowhere/net.ftbnn")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return str(caught.value)


def test_reading_gives_back_what_was_written(net):
    message = decode(net.bytes())
    assert encode("Model", message) == net.bytes()


def test_every_truncation(net):
    data = net.bytes()
    for end in range(len(data)):
        refused(data[:end])


def test_every_byte_changed(net):
    """Nothing but a UserError ever comes of it, whatever is read."""
    data = net.bytes()
    random = np.random.default_rng(0)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << int(random.integers(8))
        refused(bytes(changed))  # were it a network still: there is no folder for its file


def test_noise():
    random = np.random.default_rng(0)
    for size in (0, 1, 10, 1000, 100_000):
        refused(random.bytes(size))


def test_a_cycle(net):
    net.nodes[0]["input"][0] = net.nodes[-1]["output"][0]
    assert "depends on its own output" in refused(net.bytes())


def test_what_nobody_writes(net):
    net.nodes[1]["input"][0] = "nothing"
    assert "nothing writes 'nothing'" in refused(net.bytes())


def test_two_writers(net):
    net.nodes[1]["output"] = net.nodes[0]["output"]
    assert "written already" in refused(net.bytes())


@pytest.mark.parametrize("dims", [[2**40, 2**40], [2**62], [3, 2, 3, 4], [-1, 18], [1] * 100])
def test_initialisers_larger_than_what_is_there(net, dims):
    net.tensors[1]["dims"] = dims
    assert "c1" in refused(net.bytes())


def test_a_length_beyond_the_file(net):
    with pytest.raises(NotOnnx, match="announces"):
        decode(b"\x3a\xff\xff\xff\xff\x7f" + net.bytes())


def test_external_data_is_not_looked_for(net, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(np.ones(54, np.float32).tobytes())
    tensor = net.tensors[1]
    del tensor["raw_data"]
    tensor["data_location"] = 1
    tensor["external_data"] = [{"key": "location", "value": str(secret)}]
    assert "kept outside of the file" in refused(net.bytes())
    tensor["external_data"] = [{"key": "location", "value": "../secret"}]
    assert "kept outside of the file" in refused(net.bytes())


def test_wrong_types(net):
    net.tensors[1]["data_type"] = 8  # text
    assert "type 8" in refused(net.bytes())
    net.tensors[1]["data_type"] = 7  # int64
    refused(net.bytes())


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pads", {"type": 1, "f": 1.0}),
        ("pads", {"type": 7, "ints": [2**62] * 4}),
        ("strides", {"type": 7, "ints": [0, 0]}),
        ("strides", {"type": 3, "s": b"two"}),
        ("group", {"type": 2, "i": -(2**62)}),
        ("kernel_shape", {"type": 7, "ints": [2**40, 2**40]}),
        ("dilations", {"type": 7, "ints": [2**13, 2**13]}),
        ("auto_pad", {"type": 3, "s": b"\xff" * 1000}),
    ],
)
def test_wrong_attributes(net, name, wrong):
    net.nodes[1]["attribute"] = [{"name": name, **wrong}]
    assert "Conv" in refused(net.bytes())


@pytest.mark.parametrize(
    "shape", [[1, 2**40, 2**40, 2], [1, 0, 4, 4], [1], [1, 2, 3, 4, 5], [1, -4, 4, 4], [1, 2**20, 2**20]]
)
def test_inputs_of_impossible_shapes(shape):
    net = Net(*shape[1:], batch=shape[0])
    net.add("Relu")
    refused(net.bytes())


def test_a_million_nodes():
    net = Net(3)
    net.nodes = [{"op_type": "Relu", "input": [f"t{k}"], "output": [f"t{k + 1}"]} for k in range(2**14 + 1)]
    net.x = "t1"
    assert "nodes" in refused(net.bytes())


def test_sizes_that_grow_within_the_graph():
    for op, inputs in (("Expand", [2**20, 2**20]), ("ConstantOfShape", [2**20, 2**20])):
        net = Net(3)
        shape = net.const(np.array(inputs, np.int64))
        given = [net.const([1.0]), shape] if op == "Expand" else [shape]
        net.add("Add", inputs=["x", net.add(op, inputs=given)])
        assert op in refused(net.bytes())


def test_names_are_shown_on_one_line(net):
    net.nodes[1]["op_type"] = "Evil\n\x1b[2J" * 50
    refused(net.bytes())


def test_files_that_are_none(tmp_path):
    for path in (tmp_path, tmp_path / "absent", "/dev/zero"):
        with pytest.raises(UserError, match="cannot read"):
            read_bytes(type(tmp_path)(path))


def test_no_nodes():
    with pytest.raises((UserError, ImportRefused)):
        parse(b"")


def test_little_memory(net, tmp_path):
    """Damaged files, read with an upper limit to all memory."""
    path = tmp_path / "net.onnx"
    path.write_bytes(net.bytes())
    code = f"""
import resource, sys, numpy as np
from ftbnn.errors import UserError
from ftbnn.exchange.qonnx_lower import lower
from ftbnn.exchange.qonnx_model import parse
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
data, random = open({str(path)!r}, 'rb').read(), np.random.default_rng(1)
for _ in range(2000):
    changed = bytearray(data)
    for at in random.integers(0, len(data), 4):
        changed[at] = random.integers(256)
    try:
        lower(parse(bytes(changed)))
    except UserError:
        pass
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot import an empty file"),
        (b"hello world\n" * 9, "this is no network: it begins"),
        (b"\xff", "this is no network: it begins"),
        (b"\xca\x01\x00", "this is not a whole ONNX file"),  # field 25, functions: it may come first
        (zoo.resolve("zoo:digits").read_bytes(), "this is a .ftbnn file, which needs no import"),
        *((picture(kind), f"this is a {kind} picture") for kind in ("JPEG", "PNG", "BMP", "GIF")),
    ],
)
def test_what_is_no_network_is_called_so(data, reason, tmp_path):
    with pytest.raises(UserError, match=reason):
        import_qonnx(data, tmp_path / "n.ftbnn")
