"""The picture of table 3: differences from the network without modules, where that one was run."""

from contextlib import contextmanager

import pytest

from ftbnn.data import load
from ftbnn.drawing import canvas
from ftbnn.experiments import table3
from ftbnn.experiments.queue import Request


@pytest.mark.parametrize(
    ("run", "legend", "dots"),
    [
        ({"ftbnn18-none": 40.0, "ftbnn18-prelu": 45.0, table3.QUARTER: 46.0}, ["ours, digits"], [0, 5, 6]),
        ({"ftbnn18-prelu": 45.0, table3.QUARTER: 46.0}, ["ours: no run without modules yet"], []),
        ({}, [], []),
    ],
)
def test_the_picture_promises_no_dots_that_it_has_not(run, legend, dots, tmp_path, monkeypatch):
    seen = {}

    @contextmanager
    def watched(*given, **settings):
        with canvas(*given, **settings) as axes:
            yield axes
            seen["legend"] = [text.get_text() for text in axes.get_legend().get_texts()]
            filled = [one for one in axes.get_lines() if one.get_color() == "C0" and one.get_mfc() != "none"]
            seen["dots"] = sorted(float(x) for one in filled for x in one.get_xdata())
            seen["rows"] = {label.get_text() for label in axes.get_yticklabels()}

    monkeypatch.setattr(table3, "canvas", watched)
    request = Request("table3", "quick", tmp_path, load("digits"), width=4, epochs=1, seeds=1, budget_m=1.0)
    records = [{"variant": variant, "divergence": "", "top1": top1, "top5": top1} for variant, top1 in run.items()]
    table3.show(request, records)
    assert seen["legend"] == ["paper, ImageNet", *legend]
    assert seen["dots"] == dots
    assert ("all FPReLU, slopes start at 0.25 and 1" in seen["rows"]) == bool(dots), "no empty row"
