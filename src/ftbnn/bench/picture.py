"""The rows of a comparison as a picture: milliseconds per image, a panel for each number of threads and batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ftbnn.drawing import canvas
from ftbnn.text import counted

ENGINES = {"ftbnn": "ftbnn", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch"}
COLORS = {"ftbnn": "#d1495b", "binary": "#7c9eb2", "int8": "#c9d1d8", "fp32": "#e3e6e8"}


def _label(row: dict[str, Any]) -> str:
    if row["engine"] == "ftbnn":
        return f"{row['name']}, ftbnn {row['isa']}"
    return f"{row['name']} {row['precision']}, {ENGINES[row['engine']]}"


def _panel(axes: Any, rows: Sequence[dict[str, Any]], title: str) -> None:
    rows = sorted(rows, key=lambda row: row["median_ms"])
    times = [row["median_ms"] / row["batch"] for row in rows]
    # PyTorch's bars, many times as long, would leave nothing to see of the others.
    others = [ms for row, ms in zip(rows, times, strict=True) if row["engine"] not in ("ftbnn", "torch")]
    limit = 1.3 * max(others, default=max(times))
    kinds = ["ftbnn" if row["engine"] == "ftbnn" else row["precision"] for row in rows]
    lengths = [min(ms, limit) for ms in times]
    bars = axes.barh([_label(row) for row in rows], lengths, color=[COLORS[kind] for kind in kinds], height=0.75)
    texts = [f"{ms:.3g}" if ms <= limit else f"{ms:.3g} (cut)" for ms in times]
    axes.bar_label(bars, texts, padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.set_title(title, fontsize=10, loc="left")
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("ms per image (median)", fontsize=8)


def draw(rows: Sequence[dict[str, Any]], out: Path, title: str) -> None:
    cells = list(dict.fromkeys((row["batch"], row["threads"]) for row in rows))
    columns = min(2, len(cells))
    lines = -(-len(cells) // columns)
    most = max(sum((row["batch"], row["threads"]) == cell for row in rows) for cell in cells)
    size = (6.5 * columns, lines * (1.0 + 0.27 * most) + 0.4)
    with canvas(out, rows=lines, columns=columns, size=size) as drawn:
        grid = np.ravel(drawn)
        for axes, (batch, threads) in zip(grid, cells, strict=False):
            mine = [row for row in rows if (row["batch"], row["threads"]) == (batch, threads)]
            _panel(axes, mine, f"{counted(threads, 'thread')}, batch {batch}")
        for axes in grid[len(cells) :]:
            axes.set_visible(False)
        grid[0].figure.suptitle(title, fontsize=11)
