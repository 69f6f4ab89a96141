"""Pictures without a screen: axes to draw on, saved whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ftbnn.errors import UserError


def _pyplot() -> Any:
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UserError("drawing needs matplotlib: pip install matplotlib") from error
    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot


def picture_file(path: Path) -> Path:
    """`path`, as a .png if it names no format; asked before long work, it tells what would fail after it."""
    path = path if path.suffix else path.with_suffix(".png")
    formats = _pyplot().matplotlib.backend_bases.FigureCanvasBase.filetypes
    if path.suffix[1:].lower() not in formats:
        raise UserError(f"cannot write {path}: {path.suffix} is no format of pictures; there are {', '.join(formats)}")
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}: {path.parent} is not a directory")
    return path


def whole_numbers(axis: Any) -> None:
    """Ticks at whole numbers only, be it a single one."""
    axis.get_major_locator().set_params(integer=True, min_n_ticks=1)


@contextmanager
def canvas(path: Path, *, rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.4, 4.2)) -> Iterator[Any]:
    """Axes to draw on (an array if several); saved to `path` at the end."""
    path = picture_file(path)
    plt = _pyplot()
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained")
    temporary = path.with_name(f".{path.name}")
    try:
        yield axes
        # The same drawing is the same bytes: no version of a program in it.
        metadata = {"Software": None} if path.suffix.lower() == ".png" else None
        figure.savefig(temporary, dpi=150, metadata=metadata)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
        plt.close(figure)
