"""Methods, each trained with one recipe at equal width: `quick` every row of `ftbnn methods`, else those of the tables.

The paper quotes what authors printed, at their own width, epochs and recipe. Here every method keeps the network's
shape and brings its layers (docs/methods.md); with its own recipe it may do better. Table 4 takes these runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from statistics import fmean
from typing import Any

from torch import nn

from ftbnn.budget import Budget, count
from ftbnn.drawing import canvas
from ftbnn.experiments.claims import spread, values
from ftbnn.experiments.curves import curves
from ftbnn.experiments.latencies import COLUMN, Time, machines, times
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.models import METHODS, build
from ftbnn.models.skeleton import skeleton
from ftbnn.nn import method_named, stem_for

TITLE = "Methods under one recipe"
ABOUT = (
    "Binarization methods in one network, ResNet-18's shape with a shortcut around every convolution, at equal width "
    "and with one recipe, the naive one; some also with that of their own papers as far as it fits so few epochs."
)
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


# Of the methods whose papers train otherwise: settings of the recipe, as (family, settings).
OWN: dict[str, tuple[str, dict[str, str]]] = {
    "irnet": ("naive", {"optimizer": "sgd", "lr": "0.1", "weight_decay": "1e-4"}),
    "recu": ("naive", {"optimizer": "sgd", "lr": "0.1", "weight_decay": "5e-4", "warmup_epochs": "1"}),
    "hwgq": ("naive", {"optimizer": "sgd", "lr": "0.1", "schedule": "linear", "weight_decay": "5e-5"}),
    "reactnet": ("two-step", {}),
}
# The right half of the paper's table 4: its rows, our method (None: it is no row of methods), and what it prints of
# bits, budget (M) and top-1.
RIGHT: dict[str, tuple[str | None, str, str, float]] = {
    "TTQ": ("ttq", "2/32", "", 66.6),
    "BWN": ("bwn", "1/32", "", 60.8),
    "RQ ST": ("rq-like", "4/4", "", 62.5),
    "ALQ": ("alq-like", "2/2", "", 66.4),
    "SYQ": ("syq", "1/8", "", 62.9),
    "HWGQ": ("hwgq", "1/2", "", 59.6),
    "LQ-Net": ("lq-net", "1/2", "", 62.6),
    "ABC-Net": ("abc(5,5)", "(1/1)x5", "", 65.0),
    "CBCN": ("cbcn", "(1/1)x4", "", 61.4),
    "Group-Net": ("group-net", "(1/1)x4", "", 66.3),
    "BNN Ensemble": (None, "(1/1)x6", "", 61.0),
    "XNOR-Net": ("xnor", "1/1", "~163", 51.2),
    "Bi-Real Net-18": ("bireal", "1/1", "~163", 56.4),
    "XNOR-Net++": ("xnorpp", "1/1", "~163", 57.1),
    "CI-BCNN": ("ci-bcnn", "1/1", "~163", 59.9),
    "BONN": ("bonn", "1/1", "~163", 59.3),
    "IR-Net": ("irnet", "1/1", "~163", 58.1),
    "FTBNN baseline": ("ftbnn", "1/1", "~163", 60.2),
    "Real-to-Bin": ("real-to-bin-gated", "1/1", "183", 65.4),
}


def _variant(name: str) -> str:
    return "ftbnn18" if name == "ftbnn" else f"method-{name}"


_NAMES = (*METHODS, *(name for name, *_ in RIGHT.values() if name is not None))
LABELS = {_variant(name): name for name in _NAMES} | {f"own-{name}": f"{name}, its own recipe" for name in OWN}


def _job(name: str, seed: int, request: Request) -> Job:
    """FTBNN's own is that of the other tables."""
    if name == "ftbnn":
        return Job("ftbnn18", "ftbnn18", seed, request.width)
    return Job(_variant(name), "ftbnn18", seed, request.width, settings=dict(method_named(name).recipe), method=name)


def _own_job(name: str, seed: int, request: Request) -> Job:
    family, settings = OWN[name]
    if family == "two-step":  # as many epochs together
        settings = {"epochs": str(max(1, request.epochs // 2))} | settings
    return Job(f"own-{name}", "ftbnn18", seed, request.width, family=family, settings=settings, method=name)


def jobs(request: Request) -> list[Job]:
    """One seed of everything, then further ones."""
    names = METHODS if request.scale == "quick" else PRINTED
    return [
        job
        for seed in range(request.seeds)
        for job in (
            *(_job(name, seed, request) for name in names),
            *(_own_job(name, seed, request) for name in OWN),
        )
    ]


def show(request: Request, records: Sequence[Record]) -> Findings:
    names = METHODS if request.scale == "quick" else PRINTED
    timed = _times("methods", names, request)
    rows = [_row(name, request, records, timed[name]) for name in names]
    rows += [_row(name, request, records, timed[name], variant=f"own-{name}") for name in OWN]
    table = Table("methods", f"{_caption(request)}; {_timing(timed)}", _columns(request), rows)
    with canvas(request.out / "methods.png") as axes:
        curves(axes, records, {_variant(name): name for name in PRINTED})
    return Findings([table], [Picture("methods.png", "Test accuracy over the epochs; mean over seeds")])


def right_jobs(request: Request) -> list[Job]:
    """Those of the right half of table 4."""
    names = [name for name, *_ in RIGHT.values() if name is not None]
    return [_job(name, seed, request) for seed in range(request.seeds) for name in names]


def _caption(request: Request) -> str:
    shape = "Methods under one recipe, in ResNet-18's shape"
    return f"{shape}: printed on ImageNet, ours on {request.data}, width {request.width}"


def _columns(request: Request) -> tuple[Column, ...]:
    return (
        Column("method", "method"),
        Column("bits", "bits w/a"),
        Column("notes", "printed with"),
        Column("paper_top1", "printed top-1 (ImageNet)", ".1f"),
        Column("top1", f"ours top-1 ({request.data})", ".2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("epochs", "epochs"),
        Column("budget_m", "budget M", ".2f"),
        Column("bytes_k", "kB packed", ".1f"),
        COLUMN,
        Column("seeds", "seeds"),
    )


def _timing(timed: Mapping[str, Time]) -> str:
    return f"ms: one image, one thread, least over turns, {machines(timed)}"


def right_table(request: Request, records: Sequence[Record]) -> Table:
    """The right half of table 4: bits, budget and accuracy of each method, printed and ours."""
    columns = (
        Column("paper", "in the paper"),
        Column("method", "here"),
        Column("paper_bits", "paper bits"),
        Column("paper_budget", "paper budget M"),
        Column("budget_m", "ours, ResNet-18 at 224", ".0f"),
        Column("paper_top1", "paper top-1 (ImageNet)", ".1f"),
        Column("top1", f"ours top-1 ({request.data}, width {request.width})", ".2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("bytes_k", "kB packed", ".1f"),
        COLUMN,
        Column("seeds", "seeds"),
    )
    timed = _times("others", [name for name, *_ in RIGHT.values() if name is not None], request)
    rows = []
    for label, (name, bits, budget, printed) in RIGHT.items():
        top1 = [] if name is None else values(records, _variant(name))
        row = {
            "paper": label,
            "method": name or "ftbnn.nn.Ensemble",
            "paper_bits": bits,
            "paper_budget": budget,
            "paper_top1": printed,
            "top1": fmean(top1) if top1 else None,
            "spread": spread(top1),
            "seeds": len(top1),
        }
        if name is not None:
            row["budget_m"] = _cost(name, 224, 3, 1000, 64).budget / 1e6
            row["bytes_k"] = _cost(name, *_sizes(request)).packed_bytes / 1e3
            row |= timed[name]
        rows.append(row)
    about = f"printed on ImageNet with each one's own network and recipe, ours on {request.data}"
    caption = f"Other methods: {about}; {_timing(timed)}"
    return Table("others", caption, columns, rows)


@cache
def _cost(name: str, image_size: int, channels: int, classes: int, width: int) -> Budget:
    with skeleton():
        network = _network(name, image_size, channels, classes, width)
        return count(network, (channels, image_size, image_size))


def _network(name: str, image_size: int, channels: int, classes: int, width: int) -> nn.Module:
    stem = stem_for(image_size)
    settings: dict[str, Any] = {"in_channels": channels, "classes": classes, "stem": stem, "width": width}
    return build("ftbnn18", method=name, image_size=image_size, **settings)


def _sizes(request: Request) -> tuple[int, int, int, int]:
    spec = request.spec
    return spec.image_size, spec.channels, spec.classes, request.width


def _times(table: str, names: Iterable[str], request: Request) -> dict[str, Time]:
    return times(request, table, {name: partial(_network, name, *_sizes(request)) for name in names})


def _row(name: str, request: Request, records: Sequence[Record], timed: Time, *, variant: str = "") -> dict[str, Any]:
    done = [record for record in records if record["variant"] == (variant or _variant(name))]
    top1 = values(done, variant or _variant(name))
    cost = _cost(name, *_sizes(request))
    printed, notes = PRINTED.get(name, (None, ""))
    return {
        "method": LABELS[variant or _variant(name)],
        "bits": "{}/{}".format(*method_named(name).bits),
        "notes": notes,
        "paper_top1": printed,
        "top1": fmean(top1) if top1 else None,
        "spread": spread(top1),
        "epochs": "+".join(str(recipe["epochs"]) for recipe in done[0]["recipes"]) if done else None,
        "budget_m": cost.budget / 1e6,
        "bytes_k": cost.packed_bytes / 1e3,
        **timed,
        "seeds": len(top1),
    }
