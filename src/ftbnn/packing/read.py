"""The operators of a .ftbnn file as the export made them: for other engines, and to go on training."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ftbnn import _native
from ftbnn.groups import split_groups
from ftbnn.packing.graph import (
    OPERATORS,
    BConv,
    Conv,
    Epilogue,
    Fused,
    Graph,
    Linear,
    Map,
    Operator,
    RoundedConv,
    Steps,
    Value,
    Window,
)
from ftbnn.runtime.model import naming

KINDS = {operator.kind: operator for operator in OPERATORS}


def read_graph(path: Path) -> Graph:
    """Reads the file with the engine's own reader. Raises FormatError if it is not one, UserError if unreadable."""
    with naming(path):
        shapes, rows = _native.read_graph(str(path))
    values = [Value(*shape) for shape in shapes]
    operators = tuple(_operator(row, values) for row in rows)
    return Graph(values[0], operators[-1].output, operators)


def _operator(row: dict[str, Any], values: list[Value]) -> Operator:
    kind, inputs, output = KINDS[row["kind"]], tuple(values[k] for k in row["inputs"]), values[row["output"]]
    fields: dict[str, Any] = {f.name: _GET[f.kind](row, f.name) for f in kind.fields}
    if kind in _BLOBS:  # of all output channels, group by group
        name = _BLOBS[kind]
        of_tap = _channels_first if kind is BConv else (lambda part: part)
        sizes = inputs[0].channels, output.channels, fields["groups"], fields["window"].kernel
        fields[name] = tuple(of_tap(part) for part in _parts(fields[name], *sizes))
    elif kind is Linear:
        fields["weight"] = fields["weight"].reshape(output.channels, inputs[0].channels)
    elif kind is Steps:
        fields = {"thresholds": fields["thresholds"].reshape(fields["rows"], fields["count"])}
    elif kind is Map:
        fields["factors"] = fields["factors"].reshape(output.height, output.width)
    if issubclass(kind, Fused):
        names = ("scale", "shift", "left", "right", "after", "first_left", "first_right")
        end: dict[str, Any] = {key: _numbers(row[key]) for key in names}
        end |= {key: row[key] for key in ("act", "low", "high")}
        end["shortcut"] = values[row["shortcut"]] if row["shortcut"] >= 0 else None
        fields["epilogue"] = Epilogue(**end)
    return kind(row["path"], inputs, output, **fields)


def _window(row: dict[str, Any], name: str) -> Window:
    return Window(row[name][:2], row[name][2:4], row[name][4:])


def _bits(row: dict[str, Any], _: str) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(row["positive"], np.uint8), bitorder="little").astype(bool)


_BLOBS: dict[type[Operator], str] = {Conv: "weights", BConv: "positive", RoundedConv: "integers"}
_GET: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "window": _window,
    "u32": lambda row, name: row[name],
    "u8": lambda row, name: row[name],
    "weights": lambda row, _: np.frombuffer(row["weights"], "<f4"),
    "rounded": lambda row, name: np.frombuffer(row[name], f"<i{row['bits'] // 8}"),
    "numbers": lambda row, name: _numbers(row[name]),
    "bits": _bits,
    "integers": lambda row, name: np.frombuffer(row[name], "<i4").copy(),
}


def _channels_first(part: NDArray[Any]) -> NDArray[Any]:
    """The stream has the input channels of a tap side by side; arrays have the taps behind the channels."""
    outputs, _, height, width = part.shape
    first: NDArray[Any] = part.reshape(outputs, height, width, -1).transpose(0, 3, 1, 2).copy()
    return first


def _numbers(data: bytes | None) -> NDArray[np.float64] | None:
    return None if data is None else np.frombuffer(data, "<f4").astype(np.float64)


def _parts(
    flat: NDArray[Any], inputs: int, outputs: int, groups: int, kernel: tuple[int, int]
) -> tuple[NDArray[Any], ...]:
    """One (out, in of group, kh, kw) array, or two where the last group is larger than the others."""
    arrays, at = [], 0
    for part in split_groups(inputs, outputs, groups):
        inside = (part.inputs.stop - part.inputs.start) // part.groups
        shape = (part.outputs.stop - part.outputs.start, inside, *kernel)
        arrays.append(flat[at : at + math.prod(shape)].reshape(shape))
        at += math.prod(shape)
    return tuple(arrays)
