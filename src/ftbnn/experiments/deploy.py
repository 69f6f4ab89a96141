"""Deployment: each trained network as one file in the native engine: size, agreement and latency beside its peers."""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ftbnn.bench.net import Comparison, compare
from ftbnn.drawing import canvas
from ftbnn.experiments.queue import OUTCOME, Job, Record, Request, upgraded
from ftbnn.experiments.result import FILE, Column, Findings, Picture, Table, read
from ftbnn.experiments.table3 import job
from ftbnn.files import write_atomically
from ftbnn.json_text import dumps
from ftbnn.machine import capabilities
from ftbnn.packing import ExportError
from ftbnn.workflows.deploy import compare_file, export, last_checkpoint

TITLE = "Deployment: size, agreement, latency"
ABOUT = (
    "Every network (but the toys) that the other experiments have trained on the same data (seed 0, last epoch), "
    "packed into one file and run by the native engine: its accuracy and its answers over the whole test set beside "
    "those of the checkpoint, and the latency of one image on one thread beside the fastest of ONNX Runtime, OpenVINO "
    "and PyTorch, for the same binary network and for a real-valued ResNet-18 of the same width (`ftbnn bench net`). "
    "A folder without such runs gets the baseline's; `ftbnn reproduce table3` beside it makes the others."
)
ROUNDS = 5

Row = dict[str, Any]


def jobs(request: Request) -> list[Job]:
    return [job("ftbnn18", 0, request)]


def show(request: Request, records: Sequence[Record]) -> Findings:  # noqa: ARG001 - it takes the runs of all experiments
    measured = [_row(place, record, request) for place, record in _finished(request)]
    rows = list((_by_network(_written(request)) | _by_network(measured)).values())
    columns = (
        Column("network", "network"),
        Column("checkpoint_top1", f"checkpoint top-1 ({request.data})", ".2f"),
        Column("packed_top1", "packed top-1", ".2f"),
        Column("agreement", "same answer %", ".2f"),
        Column("file_kb", "file kB", ".1f"),
        Column("fp32_kb", "as fp32 kB", ".1f"),
        Column("native_ms", "native ms", ".3f"),
        Column("binary_ms", "same network, best peer ms", ".3f"),
        Column("binary_engine", "which"),
        Column("fp32_ms", "fp32 ResNet-18, best peer ms", ".3f"),
        Column("fp32_engine", "which"),
        Column("int8_ms", "int8 ResNet-18, best peer ms", ".3f"),
        Column("int8_engine", "which"),
    )
    kernels = ", ".join(dict.fromkeys(row["measured_on"]["isa"] for row in rows if "measured_on" in row))
    caption = f"One image of {request.data}, one thread, least over the turns; kernels: {kernels}"
    pictures = []
    if rows:
        _draw(request, rows)
        pictures = [Picture("deploy.png", "Latency of one image on one thread; the file's size beside the name")]
    return Findings([Table("deploy", caption, columns, rows)], pictures)


def _finished(request: Request) -> list[tuple[Path, Record]]:
    """Seed 0 of every variant trained on this data; the first one found counts."""
    found: dict[tuple[Any, ...], tuple[Path, Record]] = {}
    for run in request.finished():
        record = upgraded(json.loads((run / OUTCOME).read_text()))
        is_toy = record["variant"].startswith("toy-")
        if record["seed"] == 0 and record["data"] == request.data and record["state"] == "finished" and not is_toy:
            width = record["made_of"]["settings"].get("width")
            key = (record["variant"], width, tuple(recipe["epochs"] for recipe in record["recipes"]))
            found.setdefault(key, (run, record))
    return list(found.values())


def _written(request: Request) -> list[Row]:
    """The rows that stand in result.json: those of runs that are not here any more stay."""
    if not (request.out / FILE).exists():
        return []
    return [row for table in read(request.out)["tables"] if table["name"] == "deploy" for row in table["rows"]]


def _by_network(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["network"]: row for row in rows}


def _row(run: Path, record: Record, request: Request) -> Row:
    """Measured once for a checkpoint on a machine: the row is kept beside the file."""
    folder = request.out / "runs" / "files"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{run.parent.parent.name}-{record['name']}"
    checkpoint, file, kept = last_checkpoint(run), folder / f"{name}.ftbnn", folder / f"{name}.json"
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    known = capabilities()
    measured_on = {"cpu": known["cpu"], "isa": known["isa"], "checkpoint": digest}
    if kept.exists():
        row: Row = json.loads(kept.read_text())
        if row.get("measured_on") == measured_on:
            return row
    width = record["made_of"]["settings"].get("width")
    row = {"network": record["variant"] + (f", width {width}" if width else ""), "measured_on": measured_on}
    try:
        report = export(checkpoint, file)
    except ExportError:
        return row | {"checkpoint_top1": record["top1"]}
    row |= compare_file(checkpoint, file, request.source)
    row |= {"file_kb": report.size_bytes / 1e3, "fp32_kb": report.fp32_bytes / 1e3}
    row |= _latencies(file, width or request.width)
    write_atomically(kept, (dumps(row) + "\n").encode())
    return row


def _latencies(file: Path, width: int) -> Row:
    """The least milliseconds of an image: ours, and the fastest peer's of each precision."""
    measured = compare(Comparison(names=[str(file)], rounds=ROUNDS, width=width), _say).rows
    row: Row = {"native_ms": next(r["min_ms"] for r in measured if r["engine"] == "ftbnn")}
    for precision in ("binary", "fp32", "int8"):
        rivals = [r for r in measured if r["engine"] != "ftbnn" and r["precision"] == precision]
        if rivals:
            best = min(rivals, key=lambda r: r["min_ms"])
            row |= {f"{precision}_ms": best["min_ms"], f"{precision}_engine": best["engine"]}
    return row


def _say(line: str) -> None:
    """Which peers are missing; the bar tells the rest."""
    if "left out" in line:
        print(f"deploy: {line}", file=sys.stderr)


def _draw(request: Request, rows: Sequence[Row]) -> None:
    ways = {
        "native_ms": "native",
        "binary_ms": "same network, best peer",
        "fp32_ms": "fp32 ResNet-18, best peer",
        "int8_ms": "int8 ResNet-18, best peer",
    }
    with canvas(request.out / "deploy.png", size=(6.4, 1.5 + 0.5 * len(rows))) as axes:
        for number, (key, label) in enumerate(ways.items()):
            places = [line + 0.2 * (1.5 - number) for line in range(len(rows))]
            axes.barh(places, [row.get(key) or 0 for row in reversed(rows)], 0.18, color=f"C{number}", label=label)
        names = [f"{row['network']}\n{row.get('file_kb', 0):.0f} kB" for row in reversed(rows)]
        axes.set_yticks(range(len(rows)), names)
        axes.set_xscale("log")  # a peer without grouped or binary kernels takes fifty times as long
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("ms for one image, logarithmic")
        axes.grid(axis="x", alpha=0.3)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False, fontsize="small")
