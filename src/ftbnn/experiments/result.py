"""A result as data: tables with the paper's numbers beside ours, pictures, the runs behind them. Needs no PyTorch."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ftbnn.errors import UserError
from ftbnn.files import write_atomically

FILE = "result.json"
NOTHING = "\u2013"  # a dash: what a cell without a value shows


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its values, its title, and how a number is written."""

    key: str
    title: str
    form: str = ""

    def text(self, value: Any) -> str:
        if value is None:
            return NOTHING
        return format(value, self.form) if self.form and isinstance(value, int | float) else str(value)


@dataclass(frozen=True)
class Table:
    """Rows of raw values and the columns that show them."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[dict[str, Any]]

    @property
    def header(self) -> list[str]:
        return [column.title for column in self.columns]

    def cells(self) -> list[list[str]]:
        return [[column.text(row.get(column.key)) for column in self.columns] for row in self.rows]

    def markdown(self) -> str:
        lines = [self.header, ["---"] * len(self.columns), *self.cells()]
        return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Table":
        columns = [Column(**column) for column in value["columns"]]
        return cls(value["name"], value["caption"], columns, value["rows"])


@dataclass(frozen=True)
class Picture:
    """A file beside result.json."""

    file: str
    caption: str


@dataclass(frozen=True)
class Shown:
    """What an experiment makes of its finished runs."""

    tables: Sequence[Table]
    pictures: Sequence[Picture] = ()


def write(folder: Path, facts: dict[str, Any], shown: Shown, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Writes result.json: the facts, then what is shown, then one record per run."""
    value = facts | {
        "tables": [asdict(table) for table in shown.tables],
        "pictures": [asdict(picture) for picture in shown.pictures],
        "runs": list(runs),
    }
    write_atomically(folder / FILE, (dumps(value) + "\n").encode())
    return value


def dumps(value: Any, level: int = 0) -> str:
    """JSON with one line per innermost object or list: small, and its changes can be read."""
    flat = json.dumps(value, allow_nan=False)
    if not isinstance(value, dict | list | tuple) or len(flat) <= 120 or not _is_deep(value):
        return flat
    pad = " " * (level + 1)
    if isinstance(value, dict):
        inner = [f"{pad}{json.dumps(str(key))}: {dumps(item, level + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner) + f"\n{' ' * level}}}"
    return "[\n" + ",\n".join(pad + dumps(item, level + 1) for item in value) + f"\n{' ' * level}]"


def _is_deep(value: Any) -> bool:
    return any(isinstance(item, dict | list | tuple) for item in (value.values() if isinstance(value, dict) else value))


def rounded(value: Any) -> Any:
    """The value with all its floats cut to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def read(folder: Path) -> dict[str, Any]:
    """The result of a folder."""
    path = folder / FILE
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{folder} holds no {FILE}; `ftbnn reproduce` makes one") from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict) or not {"what", "title", "tables", "pictures", "runs"} <= set(value):
        raise UserError(f"{path} is not a result of `ftbnn reproduce`")
    return value
