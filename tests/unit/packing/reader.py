"""An independent reader of .ftbnn files, and an interpreter in float64: docs/format.md once more, slow and plain."""

import struct
import zlib
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F

KINDS = {
    1: "conv",
    2: "bconv",
    3: "linear",
    4: "max-pool",
    5: "avg-pool",
    6: "average-to",
    7: "concat",
    8: "channels",
    9: "pointwise",
    10: "flatten",
    11: "rounded conv",
    12: "steps",
    13: "combine",
    14: "map",
}
ACTS = ("none", "relu", "prelu", "fprelu", "clamp", "hardswish", "hardsigmoid", "sigmoid", "silu", "tanh")


@dataclass
class File:
    """What a file holds. `run` takes a float64 batch to the network's output."""

    version: int = 0
    name: str = ""
    shape: tuple = ()
    mean: tuple = ()
    std: tuple = ()
    resize: int = 0
    class_names: list = field(default_factory=list)
    values: list = field(default_factory=list)
    operators: list = field(default_factory=list)
    payload: bytes = b""
    blobs: set = field(default_factory=set)

    @property
    def kinds(self):
        return [operator.kind for operator in self.operators]

    def run(self, x):
        assert x.dtype == torch.float64
        assert tuple(x.shape[1:]) == self.shape
        values = {0: x}
        for operator in self.operators:
            result = RUN[operator.kind](operator, *(values[number] for number in operator.inputs))
            if hasattr(operator, "act"):
                result = epilogue(operator, result, values)
            assert tuple(result.shape[1:]) == self.values[operator.output], operator.path
            assert operator.output not in values
            values[operator.output] = result
        assert sorted(values) == list(range(len(self.values)))
        return result


class Graph:
    """A cursor over the graph's bytes."""

    def __init__(self, data, payload, file):
        self.data, self.payload, self.file, self.at = data, payload, file, 0

    def take(self, layout):
        numbers = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return numbers if len(numbers) > 1 else numbers[0]

    def text(self):
        size = self.take("I")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def blob(self, dtype, count):
        offset, size = self.take("QQ")
        self.file.blobs.add((offset, size))
        assert offset % 64 == 0
        assert offset + size <= len(self.payload)
        assert size == count * np.dtype(dtype).itemsize
        array = np.frombuffer(self.payload, dtype, count, offset)
        assert np.isfinite(array).all()
        return torch.from_numpy(array.astype(np.int64 if array.dtype.kind in "iu" else np.float64))

    def window(self):
        kh, kw, sh, sw, top, left = self.take("6I")
        return {"kernel": (kh, kw), "stride": (sh, sw), "padding": (top, left)}

    def epilogue(self, channels):
        flags, act = self.take("BB")
        assert flags < (32 if self.file.version > 4 else 16 if self.file.version > 1 else 8)
        assert act < (10 if self.file.version > 1 else 4)
        return {
            "scale": self.blob("<f4", channels) if flags & 1 else None,
            "shift": self.blob("<f4", channels) if flags & 2 else None,
            "shortcut": self.take("I") if flags & 4 else None,
            "act": ACTS[act],
            "left": self.blob("<f4", channels) if act in (2, 3) else None,
            "right": self.blob("<f4", channels) if act == 3 else None,
            "ends": self.take("2f") if act == 4 else None,
            "after": self.blob("<f4", channels) if flags & 8 else None,
            "first_left": self.blob("<f4", channels) if flags & 16 else None,
            "first_right": self.blob("<f4", channels) if flags & 16 else None,
        }


def group_sizes(channels, groups):
    each = channels // groups
    return [each] * (groups - 1) + [channels - each * (groups - 1)]


def read(data):
    magic, version, header, graph_bytes, offset, payload_bytes, graph_crc, payload_crc = struct.unpack_from(
        "<8sIIQQQII", data
    )
    assert magic == bytes.fromhex("894654424E4E0D0A")
    assert version in (1, 2, 3, 4, 5)
    assert header == 64
    assert data[48:60] == bytes(12)
    assert struct.unpack_from("<I", data, 60)[0] == zlib.crc32(data[:60])
    assert offset == (64 + graph_bytes + 63) // 64 * 64
    assert offset + payload_bytes == len(data)
    assert data[64 + graph_bytes : offset] == bytes(offset - 64 - graph_bytes)
    assert graph_crc == zlib.crc32(data[64 : 64 + graph_bytes])
    assert payload_crc == zlib.crc32(data[offset:])
    file = File(version=version, payload=data[offset:])
    graph = Graph(data[64 : 64 + graph_bytes], file.payload, file)
    file.name, file.shape = graph.text(), graph.take("3I")
    channels = file.shape[0]
    numbers = struct.unpack("<" + f"{2 * channels}f", graph.data[graph.at : graph.at + 8 * channels])
    graph.at += 8 * channels
    file.mean, file.std = numbers[:channels], numbers[channels:]
    file.resize = graph.take("I")
    file.class_names = [graph.text() for _ in range(graph.take("I"))]
    file.values = [graph.take("3I") for _ in range(graph.take("I"))]
    assert file.values[0] == file.shape
    file.operators = [read_operator(graph, file.values) for _ in range(graph.take("I"))]
    assert graph.at == len(graph.data), "bytes left over"
    assert file.operators[-1].output == len(file.values) - 1
    return file


def read_steps(graph, channels):
    assert graph.file.version >= 4
    count, rows = graph.take("I"), graph.take("I")
    assert rows in (1, channels)
    thresholds = graph.blob("<f4", count * rows).reshape(rows, count)
    assert (thresholds.diff(dim=1) >= 0).all()
    return {"thresholds": thresholds}


def read_operator(graph, values):  # noqa: PLR0912, PLR0915 - a branch for each kind
    kind, path = KINDS[graph.take("B")], graph.text()
    inputs = [graph.take("I") for _ in range(graph.take("I"))]
    output = graph.take("I")
    fields = {"kind": kind, "path": path, "inputs": inputs, "output": output}
    before, after = values[inputs[0]][0], values[output][0]
    if kind in ("conv", "bconv", "rounded conv"):
        fields |= graph.window()
        fields["groups"] = groups = graph.take("I")
        pairs = list(zip(group_sizes(before, groups), group_sizes(after, groups), strict=True))
        count = sum(i * o for i, o in pairs) * fields["kernel"][0] * fields["kernel"][1]
        if kind == "conv":
            stream = graph.blob("<f4", count)
        elif kind == "rounded conv":
            assert graph.file.version >= 3
            fields["bits"] = bits = graph.take("B")
            stream = graph.blob({8: "<i1", 16: "<i2"}[bits], count)
            assert stream.abs().max() < 2 ** (bits - 1)
            fields["unit"] = unit = graph.blob("<f4", after)
            assert (unit > 0).all()
            stream = stream * torch.repeat_interleave(
                unit,
                torch.tensor([i * fields["kernel"][0] * fields["kernel"][1] for i, o in pairs for _ in range(o)]),
            )
        else:
            code = graph.take("B")
            assert code < (4 if graph.file.version > 1 else 2)
            fields["zero_one"] = bool(code & 1)
            packed = graph.blob("u1", (count + 7) // 8)
            bits = np.unpackbits(packed.numpy().astype(np.uint8), bitorder="little")
            assert not bits[count:].any()
            stream = torch.from_numpy(bits[:count] * 2.0 - 1.0)
            fields["threshold"] = graph.blob("<f4", before) if code & 2 else None
        fields["weights"] = weights = []
        for i, o in pairs:
            size = i * o * fields["kernel"][0] * fields["kernel"][1]
            block, stream = stream[:size], stream[size:]
            if kind != "bconv":
                weights.append(block.reshape(o, i, *fields["kernel"]))
            else:
                weights.append(block.reshape(o, *fields["kernel"], i).permute(0, 3, 1, 2))
    elif kind == "linear":
        fields["weight"] = graph.blob("<f4", before * after).reshape(after, before)
    elif kind in ("max-pool", "avg-pool"):
        fields |= graph.window()
        if kind == "avg-pool":
            fields["whole"] = bool(graph.take("B"))
    elif kind == "channels":
        fields["map"] = graph.blob("<i4", after)
    elif kind == "combine":
        assert graph.file.version >= 4
        fields["is_sum"] = bool(graph.take("B"))
    elif kind == "map":
        assert graph.file.version >= 4
        fields["factors"] = graph.blob("<f4", values[output][1] * values[output][2]).reshape(values[output][1:])
    elif kind == "steps":
        fields |= read_steps(graph, before)
    if kind in ("conv", "bconv", "rounded conv", "linear", "pointwise"):
        fields |= graph.epilogue(after)
    return SimpleNamespace(**fields, shape=values[output])


def sealed(data, at, change):
    """The file with other bytes at `at`, and right checksums."""
    data = bytearray(data)
    data[at : at + len(change)] = change
    graph_bytes, offset = struct.unpack_from("<QQ", data, 16)
    struct.pack_into("<II", data, 40, zlib.crc32(data[64 : 64 + graph_bytes]), zlib.crc32(data[offset:]))
    struct.pack_into("<I", data, 60, zlib.crc32(data[:60]))
    return bytes(data)


def epilogue(operator, x, values):
    def per_channel(numbers):
        return numbers.reshape(-1, 1, 1)

    if operator.scale is not None:
        x = x * per_channel(operator.scale)
    if operator.shift is not None:
        x = x + per_channel(operator.shift)
    if operator.first_left is not None:
        x = torch.where(x > 0, per_channel(operator.first_right) * x, per_channel(operator.first_left) * x)
    if operator.shortcut is not None:
        x = x + values[operator.shortcut]
    if operator.act in ("relu", "prelu", "fprelu"):
        left = per_channel(operator.left) if operator.left is not None else 0.0
        right = per_channel(operator.right) if operator.right is not None else 1.0
        x = torch.where(x > 0, right * x, left * x)
    elif operator.act == "clamp":
        low, high = operator.ends
        x = torch.where(x < low, low, torch.where(x > high, high, x))
    elif operator.act != "none":
        x = CURVES[operator.act](x)
    return x if operator.after is None else x + per_channel(operator.after)


def ramp(x):
    return torch.where(x < -3, 0.0, torch.where(x > 3, 6.0, x + 3)) / 6


CURVES = {
    "hardswish": lambda x: x * ramp(x),
    "hardsigmoid": ramp,
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "tanh": lambda x: 1 - 2 / (1 + torch.exp(2 * x)),
}


def windows(operator, x, fill):
    """(N, C, oh, ow, kh, kw): every window, `fill` where it covers what is beyond the image."""
    (kh, kw), (sh, sw), (top, left) = operator.kernel, operator.stride, operator.padding
    _, oh, ow = operator.shape
    bottom, right = (oh - 1) * sh + kh - top - x.shape[2], (ow - 1) * sw + kw - left - x.shape[3]
    return F.pad(x, (left, right, top, bottom), value=fill).unfold(2, kh, sh).unfold(3, kw, sw)


def convolve(operator, x):
    outputs, start = [], 0
    for weight in operator.weights:
        block = windows(operator, x[:, start : start + weight.shape[1]], 0.0)
        outputs.append(torch.einsum("nchwkl,ockl->nohw", block, weight))
        start += weight.shape[1]
    return torch.cat(outputs, 1)


def binary_convolve(operator, x):
    limit = 0.0 if operator.threshold is None else operator.threshold.reshape(-1, 1, 1)
    bit = (x > limit).double()
    return convolve(operator, bit if operator.zero_one else 2 * bit - 1)


def average(operator, x):
    if operator.whole:
        return windows(operator, x, 0.0).sum((-1, -2)) / (operator.kernel[0] * operator.kernel[1])
    return windows(operator, x, 0.0).sum((-1, -2)) / windows(operator, torch.ones_like(x), 0.0).sum((-1, -2))


def average_to(operator, x):
    (_, oh, ow), (h, w) = operator.shape, x.shape[2:]
    rows = [x[:, :, i * h // oh : -(-(i + 1) * h // oh)].mean(2) for i in range(oh)]
    columns = [
        torch.stack([row[:, :, j * w // ow : -(-(j + 1) * w // ow)].mean(2) for j in range(ow)], 2) for row in rows
    ]
    return torch.stack(columns, 2)


RUN = {
    "conv": convolve,
    "bconv": binary_convolve,
    "rounded conv": convolve,
    "steps": lambda operator, x: (x[:, :, None] > operator.thresholds[:, :, None, None]).sum(2).to(x),
    "linear": lambda operator, x: (x[:, :, 0, 0] @ operator.weight.T)[:, :, None, None],
    "max-pool": lambda operator, x: windows(operator, x, -torch.inf).amax((-1, -2)),
    "avg-pool": average,
    "average-to": average_to,
    "concat": lambda _, *inputs: torch.cat(inputs, 1),
    "channels": lambda operator, x: x[:, operator.map],
    "pointwise": lambda _, x: x,
    "combine": lambda operator, x, other: x + other if operator.is_sum else x * other,
    "map": lambda operator, x: x * operator.factors,
    "flatten": lambda _, x: x.flatten(1)[:, :, None, None],
}
