"""The operators of a .ftbnn file as the export made them: for other engines, and to go on training."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ftbnn import _native
from ftbnn.export.graph import (
    AverageTo,
    AvgPool,
    BConv,
    Channels,
    Concat,
    Conv,
    Epilogue,
    Flatten,
    Fused,
    Graph,
    Linear,
    MaxPool,
    Operator,
    Pointwise,
    Value,
    Window,
)
from ftbnn.nn.bconv import split_groups
from ftbnn.runtime.model import naming

KINDS: dict[int, type[Operator]] = {
    kind.kind: kind for kind in (Conv, BConv, Linear, MaxPool, AvgPool, AverageTo, Concat, Channels, Pointwise, Flatten)
}


def read_graph(path: Path) -> Graph:
    """Reads the file with the engine's own reader. Raises FormatError if it is not one, UserError if unreadable."""
    with naming(path):
        shapes, rows = _native.read_graph(str(path))
    values = [Value(*shape) for shape in shapes]
    operators = tuple(_operator(row, values) for row in rows)
    return Graph(values[0], operators[-1].output, operators)


def _operator(row: dict[str, Any], values: list[Value]) -> Operator:
    kind, inputs, output = KINDS[row["kind"]], tuple(values[k] for k in row["inputs"]), values[row["output"]]
    window = Window(row["window"][:2], row["window"][2:4], row["window"][4:])
    fields: dict[str, Any] = {}
    if kind in (Conv, BConv, MaxPool, AvgPool):
        fields["window"] = window
    if kind in (Conv, BConv):
        fields["groups"] = row["groups"]
    if kind is Conv:
        weights = np.frombuffer(row["weights"], "<f4")
        fields["weights"] = _parts(weights, inputs[0].channels, output.channels, row["groups"], window.kernel)
    elif kind is BConv:
        # The stream has the input channels of a tap side by side; arrays have the taps behind the channels.
        bits = np.unpackbits(np.frombuffer(row["bits"], np.uint8), bitorder="little").astype(bool)
        parts = _parts(bits, inputs[0].channels, output.channels, row["groups"], window.kernel)
        height, width = window.kernel
        fields["positive"] = tuple(
            part.reshape(len(part), height, width, -1).transpose(0, 3, 1, 2).copy() for part in parts
        )
        fields["zero_one"] = row["zero_one"]
    elif kind is Linear:
        fields["weight"] = np.frombuffer(row["weights"], "<f4").reshape(output.channels, inputs[0].channels)
    elif kind is AvgPool:
        fields["whole"] = row["whole"]
    elif kind is Channels:
        fields["source"] = np.frombuffer(row["source"], "<i4").copy()
    if issubclass(kind, Fused):
        numbers = {key: _numbers(row[key]) for key in ("scale", "shift", "left", "right")}
        shortcut = values[row["shortcut"]] if row["shortcut"] >= 0 else None
        fields["epilogue"] = Epilogue(**numbers, shortcut=shortcut, act=row["act"])
    return kind(row["path"], inputs, output, **fields)


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
