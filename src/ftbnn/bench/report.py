"""A report: the rows as JSON and a picture, and a README.md that says on which machine and by which command.

The README is made from all the JSON files of its directory, so several commands may write into one report.
"""

import json
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from ftbnn.bench.onednn import VARIABLE
from ftbnn.bench.picture import draw
from ftbnn.errors import UserError
from ftbnn.files import write_atomically
from ftbnn.machine import describe

PACKAGES = ("ftbnn", "numpy", "torch", "onnxruntime", "openvino")


def machine() -> dict[str, Any]:
    """What a time depends on beside the program."""
    now = {"date": date.today().isoformat(), "onednn_limit": os.environ.get(VARIABLE)}
    return now | describe(PACKAGES)


def create(folder: Path) -> None:
    """Makes the directory: before the measuring, so that a mistake costs no time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror or error}") from error


def write(
    folder: Path,
    name: str,
    rows: Sequence[dict[str, Any]],
    *,
    text: str,
    picture: bool,
    **more: Sequence[dict[str, Any]],
) -> None:
    """Adds NAME.json (and NAME.png) to the report and writes its README anew. `text` is what was printed."""
    command = shlex.join(["ftbnn", *sys.argv[1:]])
    where = machine()
    entry = {"command": command, "machine": where, "rows": rows, **more, "text": text.splitlines()}
    write_atomically(folder / f"{name}.json", (json.dumps(entry, indent=2) + "\n").encode())
    if picture:
        draw(rows, folder / f"{name}.png", where["cpu"])
    write_atomically(folder / "README.md", readme(folder).encode())


def readme(folder: Path) -> str:
    parts = []
    entries = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    where = next(iter(entries.values()))["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    parts.append(
        f"# The engine beside others, {where['date']}\n\n"
        f"Machine: {where['cpu']}, {where['cores']} cores; {', '.join(where['isas'])}. {versions}."
    )
    if where["onednn_limit"]:
        parts.append(f"PyTorch and OpenVINO ran with {VARIABLE}={where['onednn_limit']}.")
    for name, entry in entries.items():
        parts.append(f"## {name}\n\n`{entry['command']}`")
        if (folder / f"{name}.png").exists():
            parts.append(f"![{name}]({name}.png)")
        parts.append("\n".join(["```", *entry["text"], "```"]))
    return "\n\n".join(part for part in parts if part) + "\n"
