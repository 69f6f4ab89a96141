"""Training curves that can be hovered, as HTML that needs nothing but its own script (curves.js). Needs no PyTorch."""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from ftbnn.experiments.result import LAST_ON_TEST

STYLE = """
.chart { margin: 1.5rem 0; } .plot { position: relative; touch-action: pan-y; }
.plot svg { display: block; overflow: visible; } .plot text { font-size: 12px; fill: currentColor; opacity: .8; }
.plot .grid { stroke: var(--line); } .plot .cross { stroke: currentColor; opacity: .5; }
.plot polyline { fill: none; stroke-width: 1.5; } .plot polyline.near { stroke-width: 3; }
.tabs button, .legend button { font: inherit; font-size: .8rem; margin: 0 .3rem .3rem 0; padding: .15rem .6rem;
  color: inherit; background: none; border: 1px solid var(--line); border-radius: 1rem; cursor: pointer; }
.tabs button[aria-pressed=true] { background: #8883; } .legend button[aria-pressed=false] { opacity: .4; }
.legend button::before, .tip div::before { content: "\\25CF\\00A0"; color: var(--dot); }
.tip { position: absolute; top: .5rem; pointer-events: none; background: Canvas; border: 1px solid var(--line);
  border-radius: 6px; padding: .3rem .6rem; font-size: .8rem; max-width: 60%; } .tip .near { font-weight: bold; }
"""
DIGITS = 4


def script() -> str:
    """What makes every chart of a page."""
    return f"<script>\n{files('ftbnn.experiments').joinpath('curves.js').read_text()}</script>\n"


def chart(runs: Sequence[dict[str, Any]]) -> str:
    """The curves of a result's runs, a line for each variant; nothing where no run has two epochs."""
    variants: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        if len(run["epochs"]) > 1:
            variants.setdefault(run["variant"], []).append(run)
    if not variants:
        return ""
    series = [{"label": name, "seeds": len(done), "curves": _curves(done)} for name, done in variants.items()]
    scores = list(dict.fromkeys(score for one in series for score in one["curves"]))  # type: ignore[attr-defined]
    data = json.dumps({"scores": scores, "series": series}, separators=(",", ":")).replace("</", "<\\/")
    about = "Over the epochs: the mean of each variant's seeds, and from the least to the greatest. Point at it."
    return f'<div class="chart"><h3>{escape(about)}</h3><script type="application/json">{data}</script></div>\n'


def _curves(done: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Score -> mean, least and greatest over the runs, of every epoch that all of them have."""
    test = any(run.get("chosen", LAST_ON_TEST) == LAST_ON_TEST for run in done)
    titles = {
        "val_top1": "test top-1 %, seen after every epoch" if test else "validation top-1 %",
        "train_top1": "training top-1 %",
        "train_loss": "training loss",
    }
    epochs = list(zip(*(run["epochs"] for run in done), strict=False))
    found = {}
    for key, title in titles.items():
        if all(row.get(key) is not None for rows in epochs for row in rows):
            points = [[row[key] for row in rows] for rows in epochs]
            found[title] = {
                name: [float(f"{value:.{DIGITS}g}") for value in map(of, points)]
                for name, of in (("mean", _mean), ("low", min), ("high", max))
            }
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
