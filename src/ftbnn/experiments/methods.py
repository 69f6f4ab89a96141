"""The methods of the paper's tables 1 and 4 (right), each trained with one recipe at equal width: a part of table 1.

The paper quotes what authors printed, at their own width, epochs and recipe. Here every method keeps the network's
shape and brings its layers (docs/methods.md); with its own recipe it may do better.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ftbnn.budget import count
from ftbnn.experiments.claims import spread, values
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Table
from ftbnn.models import build
from ftbnn.models.skeleton import skeleton
from ftbnn.nn import method_named, stem_for

# ImageNet top-1 of ResNet-18 as the FTBNN paper prints it, and what it notes: KD teacher, GA gradient, MS steps.
PRINTED: dict[str, tuple[float | None, str]] = {
    "ftbnn": (60.2, ""),
    "bnn": (42.2, ""),
    "xnor": (51.2, "MS, scaling"),
    "xnorpp": (57.1, "scaling"),
    "bireal": (56.4, "GA, scaling"),
    "irnet": (58.1, "GA, scaling"),
    "real-to-bin": (60.9, "KD, MS, scaling"),
    "reactnet": (None, ""),
    "recu": (None, ""),
    "adabin": (None, ""),
    "abc": (65.0, "5 x 5 bases"),
    "hwgq": (59.6, "1/2 bits"),
    "bop": (None, ""),
}


def method_jobs(request: Request) -> list[Job]:
    """FTBNN's own runs are the table's already."""
    return [
        Job(_variant(name), "ftbnn18", seed, request.width, settings=dict(method_named(name).recipe), method=name)
        for seed in range(request.seeds)
        for name in PRINTED
        if name != "ftbnn"
    ]


def _variant(name: str) -> str:
    return "ftbnn18" if name == "ftbnn" else f"method-{name}"


def method_table(request: Request, records: Sequence[Record]) -> Table:
    """What came of them, beside what was printed."""
    columns = (
        Column("method", "method"),
        Column("bits", "bits w/a"),
        Column("notes", "printed with"),
        Column("paper_top1", "printed top-1 (ImageNet)", ".1f"),
        Column("top1", f"ours top-1 ({request.data})", ".2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("epochs", "epochs"),
        Column("budget_m", "budget M", ".2f"),
        Column("bytes_k", "kB packed", ".1f"),
        Column("seeds", "seeds"),
    )
    rows = [_row(name, request, records) for name in PRINTED]
    caption = (
        f"Methods under one recipe, in ResNet-18's shape: printed on ImageNet, ours on {request.data}, "
        f"width {request.width}"
    )
    return Table("methods", caption, columns, rows)


def _row(name: str, request: Request, records: Sequence[Record]) -> dict[str, Any]:
    variant, spec = _variant(name), request.spec
    done = [record for record in records if record["variant"] == variant]
    top1 = values(done, variant)
    with skeleton():
        network = build(
            "ftbnn18",
            classes=spec.classes,
            in_channels=spec.channels,
            stem=stem_for(spec.image_size),
            width=request.width,
            method=name,
            image_size=spec.image_size,
        )
    cost = count(network, (spec.channels, spec.image_size, spec.image_size))
    printed, notes = PRINTED[name]
    return {
        "method": name,
        "bits": "{}/{}".format(*method_named(name).bits),
        "notes": notes,
        "paper_top1": printed,
        "top1": fmean(top1) if top1 else None,
        "spread": spread(top1),
        "epochs": done[0]["recipes"][0]["epochs"] if done else None,
        "budget_m": cost.budget / 1e6,
        "bytes_k": cost.packed_bytes / 1e3,
        "seeds": len(top1),
    }
