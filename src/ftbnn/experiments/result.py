"""A result as data: tables with the paper's numbers beside ours, pictures, the runs behind them. Needs no PyTorch."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ftbnn.errors import UserError
from ftbnn.files import write_atomically
from ftbnn.json_text import dumps

FILE = "result.json"
NOTHING = "\u2013"  # a dash: what a cell without a value shows
LAST_ON_TEST = "last epoch; the test set was seen after every epoch"  # what records before validation splits are


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
class Findings:
    """What an experiment makes of its finished runs."""

    tables: Sequence[Table]
    pictures: Sequence[Picture] = ()


def write(folder: Path, facts: dict[str, Any], shown: Findings, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Writes result.json: the facts, then what is shown, then one record per run."""
    value = facts | {
        "tables": [asdict(table) for table in shown.tables],
        "pictures": [asdict(picture) for picture in shown.pictures],
        "runs": list(runs),
    }
    write_atomically(folder / FILE, (dumps(value) + "\n").encode())
    return value


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
