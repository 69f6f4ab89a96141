"""The messages of an ONNX file, read and written: the part of its protobuf schema that networks use, as one table.

Reading is strict, and what it allocates is never larger than the file: every length is compared with what is there,
and messages within messages are no deeper than the table, for a field that is not in it is skipped.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ftbnn.errors import UserError

Message = dict[str, Any]


class NotOnnx(UserError):
    """Bytes that are no ONNX file."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"this is not a whole ONNX file: {reason}")


# Field number: (name, what it holds). A name of this table is a message; "[]" is a list of what is named before it.
SCHEMA: dict[str, dict[int, tuple[str, str]]] = {
    "Model": {
        1: ("ir_version", "int"),
        2: ("producer_name", "text"),
        3: ("producer_version", "text"),
        7: ("graph", "Graph"),
        8: ("opset_import", "OperatorSet[]"),
        14: ("metadata_props", "Entry[]"),
    },
    "OperatorSet": {1: ("domain", "text"), 2: ("version", "int")},
    "Entry": {1: ("key", "text"), 2: ("value", "text")},
    "Graph": {
        1: ("node", "Node[]"),
        2: ("name", "text"),
        5: ("initializer", "Tensor[]"),
        11: ("input", "ValueInfo[]"),
        12: ("output", "ValueInfo[]"),
        15: ("sparse_initializer", "bytes[]"),
    },
    "Node": {
        1: ("input", "text[]"),
        2: ("output", "text[]"),
        3: ("name", "text"),
        4: ("op_type", "text"),
        5: ("attribute", "Attribute[]"),
        7: ("domain", "text"),
    },
    "Attribute": {
        1: ("name", "text"),
        2: ("f", "float"),
        3: ("i", "int"),
        4: ("s", "bytes"),
        5: ("t", "Tensor"),
        6: ("g", "bytes"),
        7: ("floats", "float[]"),
        8: ("ints", "int[]"),
        9: ("strings", "bytes[]"),
        20: ("type", "int"),
        21: ("ref_attr_name", "text"),
    },
    "Tensor": {
        1: ("dims", "int[]"),
        2: ("data_type", "int"),
        4: ("float_data", "float[]"),
        5: ("int32_data", "int[]"),
        7: ("int64_data", "int[]"),
        8: ("name", "text"),
        9: ("raw_data", "bytes"),
        10: ("double_data", "double[]"),
        11: ("uint64_data", "int[]"),
        13: ("external_data", "Entry[]"),
        14: ("data_location", "int"),
    },
    "ValueInfo": {1: ("name", "text"), 2: ("type", "Type")},
    "Type": {1: ("tensor_type", "TensorType")},
    "TensorType": {1: ("elem_type", "int"), 2: ("shape", "Shape")},
    "Shape": {1: ("dim", "Dim[]")},
    "Dim": {1: ("dim_value", "int"), 2: ("dim_param", "text")},
}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED = {"float": (FIXED32, "<f4"), "double": (FIXED64, "<f8")}
DEFAULTS: dict[str, Any] = {"int": 0, "text": "", "bytes": b"", "float": 0.0, "double": 0.0}
MOST_MEMBERS = 2**22  # of all messages of a file: each costs some hundred bytes here and two in the file


def may_be_onnx(data: bytes) -> bool:
    """Whether it begins with a field that a Model has, also one of those that are skipped here."""
    wires = {1: VARINT, 5: VARINT, **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), BYTES)}
    tag = data[0] if data[0] < 0x80 else data[0] & 0x7F | sum(data[1:2]) << 7  # of one byte, or of two
    return wires.get(tag >> 3) == tag & 7


def decode(data: bytes) -> Message:
    """The Model that `data` holds. Raises NotOnnx where it does not hold one."""
    return _Reader(data).message("Model", 0, len(data))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.members = 0

    def message(self, kind: str, at: int, end: int) -> Message:
        fields = SCHEMA[kind]
        made: Message = {name: _absent(what) for name, what in fields.values()}
        while at < end:
            key, at = self.varint(at, end)
            number, wire = key >> 3, key & 7
            name, what = fields.get(number, ("", ""))
            first, at = self.extent(wire, at, end)
            self.members += 1
            if self.members > MOST_MEMBERS:
                raise NotOnnx(f"it has more than {MOST_MEMBERS} fields")
            if not name:
                continue
            found = self.field(what.removesuffix("[]"), wire, first, at)
            if what.endswith("[]"):
                made[name].extend(found)
            else:
                made[name] = found[-1] if found else made[name]
        return made

    def extent(self, wire: int, at: int, end: int) -> tuple[int, int]:
        """Where the field's content begins and ends."""
        if wire == VARINT:
            return at, self.varint(at, end)[1]
        if wire == BYTES:
            length, at = self.varint(at, end)
            size = length
        elif wire in (FIXED32, FIXED64):
            size = 4 if wire == FIXED32 else 8
        else:
            raise NotOnnx(f"byte {at} begins a field of a kind that does not exist")
        if size > end - at:
            raise NotOnnx(f"byte {at} announces {size} bytes where {end - at} are left")
        return at, at + size

    def varint(self, at: int, end: int) -> tuple[int, int]:
        number = 0
        for k in range(10):
            if at + k >= end:
                raise NotOnnx(f"it ends within a number, at byte {at + k}")
            byte = self.data[at + k]
            number |= (byte & 0x7F) << 7 * k
            if byte < 0x80:
                return number & (2**64 - 1), at + k + 1
        raise NotOnnx(f"a number at byte {at} has more than 64 bits")

    def field(self, what: str, wire: int, at: int, end: int) -> Sequence[Any]:
        """The field's members: one, or several where numbers are packed."""
        if what == "int" and wire == VARINT:
            return [_signed(self.varint(at, end)[0])]
        if what == "int" and wire == BYTES:
            return self.packed(at, end)
        if what in FIXED and wire in (FIXED[what][0], BYTES):
            width = 4 if what == "float" else 8
            if (end - at) % width:
                raise NotOnnx(f"numbers of {width} bytes take {end - at} bytes at byte {at}")
            return list(np.frombuffer(self.data, FIXED[what][1], (end - at) // width, at).tolist())
        if wire != BYTES or what == "int" or what in FIXED:
            raise NotOnnx(f"byte {at} holds something else than a field of its number does")
        if what == "bytes":
            return [self.data[at:end]]
        if what == "text":
            try:
                return [self.data[at:end].decode()]
            except UnicodeDecodeError:
                raise NotOnnx(f"a name at byte {at} is not text") from None
        return [self.message(what, at, end)]

    def packed(self, at: int, end: int) -> list[int]:
        numbers = []
        while at < end:
            number, at = self.varint(at, end)
            numbers.append(_signed(number))
        self.members += len(numbers)
        return numbers


def _absent(what: str) -> Any:
    return [] if what.endswith("[]") else DEFAULTS.get(what)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def encode(kind: str, message: Message) -> bytes:
    """The bytes of a message. What is absent, empty or 0 is left out, as protobuf's defaults are."""
    return b"".join(_encoded(kind, message))


def _encoded(kind: str, message: Message) -> Iterator[bytes]:
    stray = set(message) - {name for name, _ in SCHEMA[kind].values()}
    assert not stray, f"{kind} has no {stray}"
    for number, (name, what) in SCHEMA[kind].items():
        given: Any = message.get(name)
        if given is None or given in ([], "", b"", 0):
            continue
        base = what.removesuffix("[]")
        for item in given if what.endswith("[]") else [given]:
            if base == "int":
                yield _varint(number << 3 | VARINT) + _varint(int(item) & (2**64 - 1))
            elif base in FIXED:
                yield _varint(number << 3 | FIXED[base][0]) + struct.pack("<f" if base == "float" else "<d", item)
            else:
                body = item if base == "bytes" else item.encode() if base == "text" else encode(base, item)
                yield _varint(number << 3 | BYTES) + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


# Tensors: ONNX's numbers of types, with the field in which their elements may stand beside raw_data.
TYPES: dict[int, tuple[str, str]] = {
    1: ("<f4", "float_data"),
    2: ("<u1", "int32_data"),
    3: ("<i1", "int32_data"),
    4: ("<u2", "int32_data"),
    5: ("<i2", "int32_data"),
    6: ("<i4", "int32_data"),
    7: ("<i8", "int64_data"),
    9: ("?", "int32_data"),
    11: ("<f8", "double_data"),
    12: ("<u4", "uint64_data"),
    13: ("<u8", "uint64_data"),
}
FLOAT, FLOAT16 = 1, 10
MOST_RANK = 8


def array_of(tensor: Message) -> NDArray[Any]:
    """A tensor's elements. Raises UserError for what is not in the file, or not as it says."""
    name = tensor["name"] or "a tensor"
    if tensor["data_location"] or tensor["external_data"]:
        raise UserError(f"{name} is kept outside of the file; save the network as one file, without external data")
    dims, kind = tensor["dims"], tensor["data_type"]
    if len(dims) > MOST_RANK or any(dim < 0 for dim in dims):
        raise UserError(f"{name} has the impossible shape {dims[: MOST_RANK + 1]}")
    count = 1
    for dim in dims:
        count *= dim
    if kind == FLOAT16:
        dtype, given = np.dtype("<f2"), np.array(tensor["int32_data"], np.int64).astype("<u2").view("<f2")
    elif kind in TYPES:
        dtype, field = np.dtype(TYPES[kind][0]), TYPES[kind][1]
        with np.errstate(all="ignore"):
            given = np.array(tensor[field], np.float64 if "f" in dtype.str else None)
            given = given.astype(dtype) if len(given) else given
    else:
        raise UserError(f"{name} has elements of ONNX's type {kind}, which cannot be read")
    raw = tensor["raw_data"]
    size = len(raw) // dtype.itemsize if raw else len(given)
    if size != count or (raw and len(raw) % dtype.itemsize):
        raise UserError(f"{name} says it has {count} elements and holds {size}")
    array: NDArray[Any] = (np.frombuffer(raw, dtype) if raw else given.astype(dtype)).reshape(dims)
    return array


def tensor_of(name: str, array: NDArray[Any]) -> Message:
    """An array as a message: real numbers as float32."""
    kind = next((kind for kind, (name, _) in TYPES.items() if np.dtype(name) == array.dtype), FLOAT)
    kind = FLOAT if array.dtype.kind == "f" else kind
    data = np.ascontiguousarray(array, TYPES[kind][0]).tobytes()
    return {"name": name, "dims": list(array.shape), "data_type": kind, "raw_data": data}
