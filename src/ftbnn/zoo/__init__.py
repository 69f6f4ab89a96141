"""Trained networks that ship: NAME.ftbnn with its card NAME.json. `zoo:NAME` stands for the file everywhere."""

import json
from pathlib import Path
from typing import Any

from ftbnn.errors import unknown
from ftbnn.files import is_packed

FOLDER = Path(__file__).parent
PREFIX = "zoo:"


def names() -> list[str]:
    """The networks there are."""
    return sorted(path.stem for path in FOLDER.glob("*.json") if path.with_suffix(".ftbnn").exists())


def card(name: str) -> dict[str, Any]:
    """The card of a network: data, recipe, seed, accuracy, size, latency, and the commands that made it."""
    value: dict[str, Any] = json.loads(_file(name, ".json").read_text())
    return value


def name_in(path: str | Path) -> str | None:
    """NAME of `zoo:NAME`; None of any other path."""
    text = str(path)
    return text.removeprefix(PREFIX) if text.startswith(PREFIX) else None


def resolve(path: str | Path) -> Path:
    """The file that `zoo:NAME` stands for; any other path as it is."""
    name = name_in(path)
    return Path(path) if name is None else _file(name, ".ftbnn")


def packed_file(given: str | Path) -> Path | None:
    """The .ftbnn file that is meant, by its path or as `zoo:NAME`; None of a run, a checkpoint or a network's name."""
    path = resolve(given)
    return path if is_packed(path) else None


def _file(name: str, suffix: str) -> Path:
    if name not in names():
        raise unknown("zoo network", name, names(), hint=f"there are {', '.join(names())}")
    return FOLDER / f"{name}{suffix}"
