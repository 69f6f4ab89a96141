"""What the verbs print with: aligned columns, JSON, sizes people can read, and the check for PyTorch."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from ftbnn.errors import UserError


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns under a header; columns of numbers are set to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(header, *cells, strict=True)]
    right = [
        bool(cells) and all(isinstance(row[k], int | float) or _is_number(str(row[k])) for row in rows)
        for k in range(len(header))
    ]

    def line(texts: Sequence[str]) -> str:
        parts = [t.rjust(w) if r else t.ljust(w) for t, w, r in zip(texts, widths, right, strict=True)]
        return "  ".join(parts).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, cells)])


def _is_number(text: str) -> bool:
    bare = text.removesuffix("%").removesuffix("M").strip().lstrip("+~")
    return bare in ("", "\u2013") or bare.removeprefix("-").replace(".", "", 1).isdigit()


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def size(size_bytes: int) -> str:
    """Bytes in the unit a person would use (powers of 1000)."""
    if size_bytes < 10_000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1e3:.1f} kB" if size_bytes < 1_000_000 else f"{size_bytes / 1e6:.2f} MB"


def require_torch(verb: str) -> None:
    """Says what to install where only the light runtime is there."""
    if find_spec("torch") is None:
        raise UserError(f"`{verb}` needs PyTorch, which the light install leaves out: pip install 'ftbnn[train]'")
