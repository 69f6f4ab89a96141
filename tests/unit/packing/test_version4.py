"""Steps in the file (version 4): the bytes, what is refused, the engine, and the way back."""

import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reader import read
from test_version3 import sealed

from ftbnn.packing.graph import Graph, Steps, Value
from ftbnn.packing.graph_module import GraphModule
from ftbnn.packing.read import read_graph
from ftbnn.packing.write import InputInfo, encode
from ftbnn.runtime import FormatError, load


def hand_made(thresholds, shape):
    image, out = Value(*shape), Value(*shape)
    steps = Steps("s", (image,), out, thresholds=np.array(thresholds, np.float32))
    info = InputInfo("hand-made", [0.0] * shape[0], [1.0] * shape[0], max(shape[1:]), ())
    return encode(Graph(image, out, (steps,)), info)


def test_the_bytes():
    data = hand_made([[-1, 0.5]], (3, 1, 1))
    graph_bytes, offset, _ = struct.unpack_from("<QQQ", data, 16)
    assert struct.unpack_from("<I", data, 8) == (4,)
    assert data[offset:] == struct.pack("<2f", -1, 0.5)
    operator = (
        bytes([12]) + struct.pack("<I", 1) + b"s" + struct.pack("<3I", 1, 0, 1) + struct.pack("<2I2Q", 2, 1, 0, 8)
    )
    assert data[64 : 64 + graph_bytes].endswith(operator)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 9), st.booleans(), st.integers(0, 2**31))
def test_every_reader_counts_alike(channels, side, count, is_shared, seed):
    random = np.random.default_rng(seed)
    rows = np.sort(random.integers(-4, 5, (1 if is_shared else channels, count)) / 2, axis=1)
    data = hand_made(rows, (channels, side, side))
    x = (random.integers(-10, 11, (3, channels, side, side)) / 4).astype(np.float32)
    expected = (x[:, :, None] > rows[:, :, None, None]).sum(2).reshape(3, -1)
    assert np.array_equal(load(data)(x), expected)
    assert np.array_equal(read(data).run(torch.from_numpy(x).double()).reshape(3, -1).numpy(), expected)


def test_the_way_back(tmp_path):
    path = tmp_path / "steps.ftbnn"
    path.write_bytes(hand_made([[-1, 0], [0.5, 2]], (2, 1, 2)))
    (steps,) = read_graph(path).operators
    assert steps.thresholds.tolist() == [[-1, 0], [0.5, 2]]
    x = torch.tensor([[[[-1.0, 0.5]], [[1.0, 3.0]]]])
    assert GraphModule(read_graph(path))(x).tolist() == [[0, 2, 1, 2]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (struct.pack("<I", 0), "number of steps"),
        (struct.pack("<I", 2**16 + 1), "number of steps"),
        (struct.pack("<2I", 2, 3), "one row, or one for each channel"),
        (struct.pack("<2I", 2, 0), "rows"),
    ],
)
def test_what_is_refused(change, reason):
    data = hand_made([[-1, 0], [0, 1], [0, 2], [0, 3]], (4, 1, 1))
    graph_bytes = struct.unpack_from("<Q", data, 16)[0]
    with pytest.raises(FormatError, match=reason):
        load(sealed(data, 64 + graph_bytes - 24, change))


def test_thresholds_that_fall_and_older_versions():
    with pytest.raises(FormatError, match="do not rise"):
        load(hand_made([[1, 0]], (1, 1, 1)))
    with pytest.raises(FormatError):
        load(sealed(hand_made([[0, 1]], (1, 1, 1)), 8, struct.pack("<I", 3)))
