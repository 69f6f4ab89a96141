"""The .ftbnn file of a graph, byte for byte as docs/format.md has it."""

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ftbnn.errors import UserError, wrong_kind
from ftbnn.files import MAGIC
from ftbnn.packing.graph import (
    ACTS,
    EPILOGUE_FLAGS,
    BConv,
    Conv,
    ExportError,
    Field,
    Fused,
    Graph,
    NotInFormat,
    Operator,
    RoundedConv,
    Value,
    Window,
)

METADATA = "ftbnn."  # before the keys of what an ONNX file tells of its images
ALIGNMENT = 64
# The limits of docs/format.md.
MAX_OPERATORS, MAX_CHANNELS, MAX_SIDE, MAX_ELEMENTS = 2**12, 2**16, 2**14, 2**28
MAX_TEXT, MAX_GROUPS, MAX_FILE = 2**16, 2**12, 2**31


@dataclass(frozen=True)
class InputInfo:
    """What a file says about its images: an 8-bit image enters as (x / 255 - mean) / std."""

    name: str
    mean: Sequence[float]
    std: Sequence[float]
    resize: int
    class_names: Sequence[str]

    def metadata(self) -> dict[str, str]:
        """The same in the words of an ONNX file's metadata, which `import` reads."""
        told = {
            "name": self.name,
            "mean": " ".join(repr(float(number)) for number in self.mean),
            "std": " ".join(repr(float(number)) for number in self.std),
            "resize": str(self.resize),
            "classes": "\n".join(self.class_names),
        }
        return {f"{METADATA}{key}": value for key, value in told.items() if value}


@dataclass
class _Payload:
    """Blobs one behind the other, each at a multiple of 64, equal ones once."""

    data: bytearray = field(default_factory=bytearray)
    offsets: dict[bytes, int] = field(default_factory=dict)

    def add(self, blob: bytes) -> bytes:
        if blob not in self.offsets:
            self.data += bytes(-len(self.data) % ALIGNMENT)
            self.offsets[blob] = len(self.data)
            self.data += blob
        return struct.pack("<QQ", self.offsets[blob], len(blob))


def _u32(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _text(text: str) -> bytes:
    if not isinstance(text, str):
        raise wrong_kind("the name of a network or of a class is a text", text)
    data = text.encode()
    if len(data) > MAX_TEXT:
        raise UserError(f"a name of {len(data)} bytes is too long for the file: {text[:40]!r}...")
    return _u32(len(data)) + data


def _window(window: Window) -> bytes:
    return _u32(*window.kernel, *window.stride, *window.padding)


def pack(parts: Sequence[NDArray[np.bool_]]) -> bytes:
    """The bit stream of docs/format.md, of arrays (out, in of group, kh, kw) that are True where a weight is +1.

    Uneven groups come as two arrays, the last group on its own: an output channel then has other input channels, and
    the stream simply goes on.
    """
    stream = np.concatenate([part.transpose(0, 2, 3, 1).ravel() for part in parts])
    return np.packbits(stream, bitorder="little").tobytes()


class _Writer:
    """Writes operators, and puts their numbers into the payload."""

    def __init__(self, graph: Graph) -> None:
        values = [graph.input, *(operator.output for operator in graph.operators)]
        self.numbers = {value: number for number, value in enumerate(values)}
        self.payload = _Payload()
        self.put: dict[str, Callable[[str, str, Any], bytes]] = {
            "window": lambda _, __, window: _window(window),
            "u32": lambda _, __, number: _u32(number),
            "weights": lambda path, _, arrays: self.floats(path, "weight", *_several(arrays)),
            "rounded": lambda _, __, parts: self.payload.add(_whole(parts)),
            "numbers": self.floats,
            "bits": lambda _, __, parts: self.payload.add(pack(parts)),
            "integers": lambda _, __, numbers: self.payload.add(numbers.astype("<i4").tobytes()),
        }

    def floats(self, path: str, what: str, *arrays: ArrayLike) -> bytes:
        with np.errstate(over="ignore"):
            flat = np.concatenate([np.asarray(array).ravel() for array in arrays]).astype("<f4")
        if not np.isfinite(flat).all():
            raise ExportError(path, f"its {what} is not finite in float32")
        return self.payload.add(flat.tobytes())

    def operator(self, operator: Operator) -> bytes:
        if isinstance(operator, Conv | BConv | RoundedConv) and operator.groups > MAX_GROUPS:
            raise NotInFormat(operator.path, f"has {operator.groups} groups; at most {MAX_GROUPS} are supported")
        inputs = [self.numbers[value] for value in operator.inputs]
        head = bytes([operator.kind]) + _text(operator.path) + _u32(len(inputs), *inputs)
        fields = [self.field(operator, f) for f in operator.fields]
        end = self.epilogue(operator) if isinstance(operator, Fused) else b""
        return b"".join([head, _u32(self.numbers[operator.output]), *fields, end])

    def field(self, operator: Operator, it: Field) -> bytes:
        given = getattr(operator, it.name)
        if it.kind == "u8":
            has_more = bool(it.announces) and getattr(operator, it.announces) is not None
            return bytes([given | has_more << 1])
        return b"" if given is None else self.put[it.kind](operator.path, it.name, given)

    def epilogue(self, operator: Fused) -> bytes:
        path, end = operator.path, operator.epilogue
        flags = sum((getattr(end, name) is not None) << bit for bit, name in enumerate(EPILOGUE_FLAGS))
        parts = [bytes([flags, ACTS.index(end.act)])]
        if end.scale is not None:
            parts.append(self.floats(path, "scale", end.scale))
        if end.shift is not None:
            parts.append(self.floats(path, "shift", end.shift))
        if end.shortcut is not None:
            parts.append(_u32(self.numbers[end.shortcut]))
        if end.left is not None:
            parts.append(self.floats(path, "left slope", end.left))
        if end.right is not None:
            parts.append(self.floats(path, "right slope", end.right))
        if end.act == "clamp":
            parts.append(struct.pack("<2f", end.low, end.high))
        if end.after is not None:
            parts.append(self.floats(path, "addition behind", end.after))
        if end.first_left is not None:
            assert end.first_right is not None
            parts.append(self.floats(path, "first left slope", end.first_left))
            parts.append(self.floats(path, "first right slope", end.first_right))
        return b"".join(parts)


def _several(arrays: Any) -> Sequence[Any]:
    return arrays if isinstance(arrays, tuple) else (arrays,)


def _whole(parts: Sequence[NDArray[Any]]) -> bytes:
    flat = np.concatenate([part.ravel() for part in parts])
    return flat.astype(flat.dtype.newbyteorder("<")).tobytes()


def _value(path: str, value: Value) -> bytes:
    if value.channels > MAX_CHANNELS or max(value.height, value.width) > MAX_SIDE or value.size > MAX_ELEMENTS:
        shape = f"{value.channels}x{value.height}x{value.width}"
        raise NotInFormat(path, f"a value of {shape} is larger than a file can hold")
    return _u32(value.channels, value.height, value.width)


def encode(graph: Graph, info: InputInfo) -> bytes:
    """The whole file, of the first version that has words for all of it."""
    if len(graph.operators) >= MAX_OPERATORS:
        raise NotInFormat("", f"it has {len(graph.operators)} operators; a file holds fewer than {MAX_OPERATORS}")
    writer = _Writer(graph)
    operators = b"".join(map(writer.operator, graph.operators))
    stream = b"".join(
        [
            _text(info.name),
            _value("the input", graph.input),
            struct.pack(f"<{2 * graph.input.channels}f", *info.mean, *info.std),
            _u32(info.resize, len(info.class_names)),
            *map(_text, info.class_names),
            _u32(len(graph.operators) + 1),
            _value("the input", graph.input),
            *(_value(operator.path, operator.output) for operator in graph.operators),
            _u32(len(graph.operators)),
            operators,
        ]
    )
    payload = bytes(writer.payload.data)
    offset = -(-(64 + len(stream)) // ALIGNMENT) * ALIGNMENT
    checksums = zlib.crc32(stream), zlib.crc32(payload)
    version = max(operator.version for operator in graph.operators)
    head = struct.pack("<8sIIQQQII12x", MAGIC, version, 64, len(stream), offset, len(payload), *checksums)
    data = head + _u32(zlib.crc32(head)) + stream + bytes(offset - 64 - len(stream)) + payload
    if len(data) > MAX_FILE:
        raise NotInFormat("", f"its file would have {len(data)} bytes; at most 2^31 are allowed")
    return data
