"""The containers of a .tflite file, read: FlatBuffers tables by slot, and FlexBuffers maps of whole numbers.

Every offset is compared with the bytes that are there before it is followed; vectors are views of the file.
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ftbnn.errors import UserError

IDENTIFIER = b"TFL3"  # at byte 4
# A few bytes may name one table, or one vector, any number of times: what is made of each is little.
MOST_TABLES = 2**16  # of a vector
MOST_FEW = 2**12  # numbers or letters that are copied


class NotTflite(UserError):
    """Bytes that are no TensorFlow Lite file."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"this is not a whole .tflite file: {reason}")


def is_tflite(data: bytes) -> bool:
    return data[4:8] == IDENTIFIER


class Table:
    """A table of the file. Fields are asked for by their slot in the schema; an absent one has its default."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self._vtable = at - _number(data, at, "<i")
        self._size = _number(data, self._vtable, "<H")
        _require(data, self._vtable, self._size, "a table")

    @staticmethod
    def root(data: bytes) -> "Table":
        if not is_tflite(data):
            raise NotTflite(f"it does not say {IDENTIFIER.decode()}")
        return Table(data, _number(data, 0, "<I"))

    def _place(self, slot: int) -> int | None:
        entry = 4 + 2 * slot
        offset = _number(self.data, self._vtable + entry, "<H") if entry + 2 <= self._size else 0
        return self.at + offset if offset else None

    def number(self, slot: int, kind: str = "<i", default: Any = 0) -> Any:
        place = self._place(slot)
        return default if place is None else _number(self.data, place, kind)

    def _target(self, slot: int) -> int | None:
        place = self._place(slot)
        return None if place is None else place + _number(self.data, place, "<I")

    def table(self, slot: int) -> "Table | None":
        at = self._target(slot)
        return None if at is None else Table(self.data, at)

    def numbers(self, slot: int, kind: str = "<i4") -> NDArray[Any]:
        """A vector of numbers; an empty one where it is absent."""
        at = self._target(slot)
        if at is None:
            return np.zeros(0, kind)
        count, width = _number(self.data, at, "<I"), np.dtype(kind).itemsize
        _require(self.data, at + 4, count * width, "a vector")
        return np.frombuffer(self.data, kind, count, at + 4)

    def few(self, slot: int, kind: str = "<i4") -> tuple[int, ...]:
        """A vector of numbers that is short by nature."""
        found = self.numbers(slot, kind)
        if len(found) > MOST_FEW:
            raise NotTflite(f"a vector has {len(found)} numbers where {MOST_FEW} are the most")
        return tuple(map(int, found))

    def tables(self, slot: int) -> list["Table"]:
        at = self._target(slot)
        offsets = self.numbers(slot, "<u4")
        if len(offsets) > MOST_TABLES:
            raise NotTflite(f"a vector names {len(offsets)} tables; {MOST_TABLES} are the most")
        return [Table(self.data, at + 4 + 4 * k + int(offset)) for k, offset in enumerate(offsets)] if at else []

    def text(self, slot: int) -> str:
        return self.numbers(slot, "<u1")[:MOST_FEW].tobytes().decode(errors="replace")


def _require(data: bytes, at: int, size: int, what: str) -> None:
    if at < 0 or size < 0 or at + size > len(data):
        raise NotTflite(f"{what} at byte {at} is beyond its end")


def _number(data: bytes, at: int, kind: str) -> Any:
    _require(data, at, struct.calcsize(kind), "a number")
    return struct.unpack_from(kind, data, at)[0]


# FlexBuffers: types that stand for themselves in a map, by their numbers.
_MAP, _INT, _UINT, _BOOL = 9, 1, 2, 26
_SIGNED = {1: "<b", 2: "<h", 4: "<i", 8: "<q"}


def flex_map(data: bytes) -> dict[str, int]:
    """The whole numbers of a map, by their keys."""
    if len(data) < 3 or data[-1] not in _SIGNED:
        raise NotTflite("an operator's options do not end as they should")
    at, packed = len(data) - 2 - data[-1], data[-2]
    if packed >> 2 != _MAP:
        raise NotTflite("an operator's options are no map")
    width = 1 << (packed & 3)
    values = at - _unsigned(data, at, data[-1])
    count = _unsigned(data, values - width, width)
    _require(data, values, count * (width + 1), "a map")
    keys = values - 3 * width - _unsigned(data, values - 3 * width, width)
    key_width = _unsigned(data, values - 2 * width, width)
    if key_width not in _SIGNED:
        raise NotTflite("an operator's options have keys of an impossible width")
    made = {}
    for k in range(count):
        place = keys + k * key_width
        first = place - _unsigned(data, place, key_width)
        last = data.find(b"\0", max(first, 0))
        _require(data, first, max(last - first, 1), "a key")
        kind = data[values + count * width + k] >> 2
        if kind in (_INT, _UINT, _BOOL):
            read = _number(data, values + k * width, _SIGNED[width])
            made[data[first:last].decode(errors="replace")] = int(read)
    return made


def _unsigned(data: bytes, at: int, width: int) -> int:
    return int(_number(data, at, _SIGNED[width].upper()))
