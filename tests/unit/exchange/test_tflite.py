"""Files of Larq Compute Engine: its own interpreter's outputs, every operator, and files that are not whole."""

import importlib.util
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ftbnn.cli.main import main
from ftbnn.errors import UserError
from ftbnn.exchange.qonnx_import import import_qonnx
from ftbnn.exchange.qonnx_lower import lower
from ftbnn.exchange.qonnx_node import ImportRefused
from ftbnn.exchange.tflite_flat import Table, flex_map
from ftbnn.exchange.tflite_model import BUILTIN, RULES, parse_tflite
from ftbnn.runtime import load

FOLDER = Path(__file__).parents[2] / "golden" / "larq"
NETWORKS = sorted(path.stem for path in FOLDER.glob("*.tflite"))
ROUNDING = 1e-5  # of outputs that are the same but for the order of sums
made_by = importlib.util.spec_from_file_location("larq_make", FOLDER / "make.py")
larq = importlib.util.module_from_spec(made_by)
made_by.loader.exec_module(larq)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_larq(name, tmp_path):
    data = (FOLDER / f"{name}.tflite").read_bytes()
    _, *shape = parse_tflite(data).shape
    images = larq.images(shape)
    made = import_qonnx(data, tmp_path / "net.ftbnn", samples=images)
    found = load(tmp_path / "net.ftbnn")(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    if made.notes:  # a softmax was left out
        found = np.exp(found - found.max(1, keepdims=True))
        found /= found.sum(1, keepdims=True)
    expected = np.load(FOLDER / f"{name}.npy")
    assert np.abs(found - expected).max() <= ROUNDING * np.abs(expected).max()
    assert made.same_outputs == 1
    assert made.tensors > 10


def test_binary_layers_stay_binary(tmp_path):
    made = import_qonnx(FOLDER / "chain.tflite", tmp_path / "net.ftbnn")
    kinds = [row["kind"] for row in load(tmp_path / "net.ftbnn").operators()]
    assert kinds.count("bconv") >= 3
    assert kinds.count("conv") + kinds.count("linear") == 2
    assert made.size_bytes < made.source_bytes


def test_the_command(tmp_path, capsys):
    assert main(["import", str(FOLDER / "residual.tflite"), "-o", str(tmp_path / "r.ftbnn")]) == 0
    assert "same best class for 100.0%" in capsys.readouterr().out


# A file made by hand: tables of {slot: field}; a field is a packed number, a table, a vector, tables or a text.
def flat(root):
    out = bytearray(8)
    out[4:8] = b"TFL3"
    struct.pack_into("<I", out, 0, _table(out, root))
    return bytes(out)


def _table(out, fields):
    slots = max(fields, default=-1) + 1
    places, size = [0] * slots, 4
    for slot, field in fields.items():
        places[slot], size = size, size + (len(field) if isinstance(field, bytes) else 4)
    vtable = len(out)
    out += struct.pack(f"<HH{slots}H", 4 + 2 * slots, size, *places)
    at = len(out)
    out += struct.pack("<i", at - vtable) + bytes(size - 4)
    for slot, field in fields.items():
        place = at + places[slot]
        if isinstance(field, bytes):
            out[place : place + len(field)] = field
        else:
            struct.pack_into("<I", out, place, _child(out, field) - place)
    return at


def _child(out, field):
    if isinstance(field, dict):
        return _table(out, field)
    at = len(out)
    if isinstance(field, list):
        out += struct.pack("<I", len(field)) + bytes(4 * len(field))
        for k, it in enumerate(field):
            place = at + 4 + 4 * k
            struct.pack_into("<I", out, place, _table(out, it) - place)
        return at
    array = np.frombuffer(field.encode(), np.uint8) if isinstance(field, str) else field
    out += struct.pack("<I", len(array)) + array.tobytes()
    return at


def i32(*numbers):
    return np.array(numbers, "<i4")


def network(kind, shape, out, options=None, constants=(), *, custom=None):
    """One operator on an image, with constants behind it."""
    inputs = [0, *range(2, 2 + len(constants))]
    return written([shape, out, *constants], [(kind, inputs, 1, options, custom)])


def written(tensors, operators):
    """Tensors are shapes, or constants; the first is the input, the last operator's the output."""
    buffers, rows, codes, steps = [{}], [], [], []
    for number, it in enumerate(tensors):
        array = np.zeros(0, "<f4") if isinstance(it, tuple) else np.asarray(it)
        array = array.astype("<i4") if array.dtype.kind == "i" else array.astype("<f4")
        shape = it if isinstance(it, tuple) else array.shape
        type_ = struct.pack("<b", 2 if array.dtype.kind == "i" else 0)
        rows.append({0: i32(*shape), 1: type_, 2: struct.pack("<I", len(buffers)), 3: f"t{number}"})
        buffers.append({0: np.frombuffer(array.tobytes(), np.uint8)})
    for kind, inputs, output, options, custom in operators:
        code = next((k for k, name in BUILTIN.items() if name == kind), 32)
        name = {1: kind} if code == 32 else {}
        codes.append({0: struct.pack("<b", min(code, 127)), 3: struct.pack("<i", code)} | name)
        step = {0: struct.pack("<I", len(codes) - 1), 1: i32(*inputs), 2: i32(output)}
        step |= {} if options is None else {3: b"\1", 4: options}
        steps.append(step if custom is None else step | {5: np.frombuffer(custom, np.uint8)})
    graph = {0: rows, 1: i32(0), 2: i32(operators[-1][2]), 3: steps}
    return flat({0: struct.pack("<I", 3), 1: codes, 2: [graph], 4: buffers})


def act(kind):
    return {0: struct.pack("<b", kind)}


IMAGE = (1, 4, 6, 3)
BY_CHANNEL = np.array([0.5, -1.0, 2.0], np.float32)
# (operator, options, constants, what it computes on (N, H, W, C))
ELEMENTWISE = {
    "RELU": (None, (), lambda x: np.maximum(x, 0)),
    "RELU6": (None, (), lambda x: np.clip(x, 0, 6)),
    "RELU_N1_TO_1": (None, (), lambda x: np.clip(x, -1, 1)),
    "NEG": (None, (), lambda x: -x),
    "TANH": (None, (), np.tanh),
    "LOGISTIC": (None, (), lambda x: 1 / (1 + np.exp(-x))),
    "HARD_SWISH": (None, (), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "LEAKY_RELU": ({0: struct.pack("<f", 0.25)}, (), lambda x: np.where(x > 0, x, 0.25 * x)),
    "PRELU": (None, (BY_CHANNEL.reshape(1, 1, 3),), lambda x: np.where(x > 0, x, BY_CHANNEL * x)),
    "ADD": (act(1), (BY_CHANNEL,), lambda x: np.maximum(x + BY_CHANNEL, 0)),
    "SUB": (act(0), (BY_CHANNEL,), lambda x: x - BY_CHANNEL),
    "MUL": (act(3), (BY_CHANNEL.reshape(1, 1, 1, 3),), lambda x: np.clip(x * BY_CHANNEL, 0, 6)),
}


@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_functions_of_single_numbers(kind, tmp_path):
    options, constants, expected = ELEMENTWISE[kind]
    check(network(kind, IMAGE, IMAGE, options, constants), expected, tmp_path)


def check(data, expected, tmp_path, shape=IMAGE):
    images = np.random.default_rng(0).normal(size=(8, *shape[1:])).astype(np.float32) * 4
    import_qonnx(data, tmp_path / "n.ftbnn", samples=images)
    found = load(tmp_path / "n.ftbnn")(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    wanted = expected(images)
    wanted = wanted.transpose(0, 3, 1, 2) if wanted.ndim == 4 else wanted
    assert np.allclose(found, wanted.reshape(len(images), -1), rtol=ROUNDING, atol=ROUNDING)


def test_vectors_in_the_order_of_the_file(tmp_path):
    matrix = np.random.default_rng(1).normal(size=(5, 72)).astype(np.float32)
    data = network("FULLY_CONNECTED", IMAGE, (1, 5), act(0), (matrix, np.arange(5.0)))
    check(data, lambda x: x.reshape(len(x), -1) @ matrix.T + np.arange(5), tmp_path)


def test_a_mean_over_pixels(tmp_path):
    check(network("MEAN", IMAGE, (1, 3), act(0), (i32(1, 2),)), lambda x: x.mean((1, 2)), tmp_path)


def test_a_gate(tmp_path):
    """A vector times a map: along the channels."""
    operators = [("MEAN", [0, 3], 1, act(0), None), ("LOGISTIC", [1], 2, None, None), ("MUL", [0, 2], 4, act(0), None)]
    data = written([IMAGE, (1, 3), (1, 3), i32(1, 2), IMAGE], operators)
    check(data, lambda x: x / (1 + np.exp(-x.mean((1, 2), keepdims=True))), tmp_path)


FLEX = bytes([ord("a"), 0, 1, 3, 1, 1, 1, 7, 1 << 2, 2, 9 << 2, 1])  # {"a": 7}
BITS = i32(1).reshape(1, 1, 1, 1)
REFUSED = {
    "EXP": (network("CUSTOM", IMAGE, IMAGE), "a .ftbnn file has no words"),
    "no options": (network("LceBconv2d", IMAGE, IMAGE, None, (BITS,)), "options do not end"),
    "other options": (
        network("LceBconv2d", IMAGE, IMAGE, None, (BITS,), custom=FLEX),
        "lack channels_in",
    ),
    "softmax": (network("SOFTMAX", IMAGE, IMAGE, {0: struct.pack("<f", 2.0)}), "its beta is not 1"),
    "mean": (network("MEAN", IMAGE, (1, 4, 6), act(0), (i32(3),)), "a mean over the axes"),
    "activation": (network("ADD", IMAGE, IMAGE, act(5), (BY_CHANNEL,)), "its fused activation 5"),
    "matrix": (network("FULLY_CONNECTED", IMAGE, (1, 5), act(0), (np.ones((5, 7)),)), "weights of"),
    "int8": (network("DEQUANTIZE", IMAGE, IMAGE), "only constants of float16"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_held_is_named(case, tmp_path):
    data, message = REFUSED[case]
    with pytest.raises(UserError, match=message) as error:
        import_qonnx(data, tmp_path / "n.ftbnn")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "n.ftbnn").exists()


def test_options_of_larq():
    assert flex_map(FLEX) == {"a": 7}


def test_every_rule_has_a_name_of_the_format():
    assert {name for name in RULES if not name.startswith("Lce")} <= set(BUILTIN.values())


@pytest.mark.parametrize("name", ["residual", "pools"])
def test_damaged_files_are_one_line(name):
    """Cut at any place, and with bytes that are others: read, or refused in one line; nothing else."""
    whole, random = (FOLDER / f"{name}.tflite").read_bytes(), np.random.default_rng(0)
    damaged = [whole[:size] for size in range(0, len(whole), len(whole) // 60)]
    for _ in range(150):
        data = bytearray(whole)
        for at in random.integers(0, len(data), random.integers(1, 6)):
            data[at] = random.integers(256)
        damaged.append(bytes(data))
    refused = []
    for data in damaged:
        try:
            lower(parse_tflite(data))
        except UserError as error:
            refused.append(str(error))
    assert len(refused) >= 60
    assert not any("\n" in message for message in refused)


def test_a_shape_beyond_reason_is_refused():
    data = network("RELU", (1, 2**20, 2**20, 3), (1, 2**20, 2**20, 3))
    with pytest.raises(UserError, match="impossible shape"):
        parse_tflite(data)


def test_what_reads_its_own_output_is_refused():
    data = bytearray(network("ADD", IMAGE, IMAGE, act(0), (BY_CHANNEL,)))
    at = bytes(data).find(i32(2, 0, 2).tobytes())  # the operator's two inputs
    struct.pack_into("<i", data, at + 4, 1)
    with pytest.raises(ImportRefused, match="not constant"):
        parse_tflite(bytes(data))


def naming_one_table(times):
    """A root whose first field is a vector that names one table, of 32,000 fields, so many times."""
    start = struct.pack("<I4sHHHxxiI", 16, b"TFL3", 6, 8, 4, 8, 4)  # the root's fields, the root, the vector behind it
    fields = struct.pack("<HH", 65534, 4) + bytes(65530)
    at = len(start) + 4 + 4 * times + len(fields)  # where the table is
    offsets = [at - (len(start) + 4 + 4 * k) for k in range(times)]
    return start + struct.pack(f"<{times + 1}I", times, *offsets) + fields + struct.pack("<i", len(fields))


def test_one_table_named_often_takes_little_memory():
    data = naming_one_table(50_000)
    tracemalloc.start()
    tables = Table.root(data).tables(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(tables) == 50_000
    assert peak < 64 << 20
    with pytest.raises(UserError, match="names 70000 tables"):
        Table.root(naming_one_table(70_000)).tables(0)
