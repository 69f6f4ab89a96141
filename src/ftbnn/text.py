"""Text for people: aligned columns, sizes, and what a file says on one safe line."""

from collections.abc import Sequence

MOST_OF_A_CELL = 200


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns under a header, each cell on one line; columns of numbers are set to the right."""
    cells = [[line(str(cell), MOST_OF_A_CELL) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(header, *cells, strict=True)]
    right = [
        bool(cells) and all(isinstance(row[k], int | float) or _is_number(str(row[k])) for row in rows)
        for k in range(len(header))
    ]

    def row(texts: Sequence[str]) -> str:
        parts = [t.rjust(w) if r else t.ljust(w) for t, w, r in zip(texts, widths, right, strict=True)]
        return "  ".join(parts).rstrip()

    return "\n".join([row(header), row(["-" * width for width in widths]), *map(row, cells)])


def _is_number(text: str) -> bool:
    bare = text.removesuffix("%").removesuffix("M").strip().lstrip("+~")
    return bare in ("", "\u2013") or bare.removeprefix("-").replace(".", "", 1).isdigit()


def counted(count: int, what: str) -> str:
    """`1 epoch`, `2 epochs`."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def line(text: str, most: int = 80) -> str:
    """Text from a file on one line of the terminal: no control characters, and not too long."""
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def size(size_bytes: int) -> str:
    """Bytes in the unit a person would use (powers of 1000)."""
    if size_bytes < 10_000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1e3:.1f} kB" if size_bytes < 1_000_000 else f"{size_bytes / 1e6:.2f} MB"
