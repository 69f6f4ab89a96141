"""Numbers in the documents are those of the committed results: every block must be what the command writes."""

from pathlib import Path

import pytest

from ftbnn.experiments.report import BLOCK, collect, fill

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("name", ["README.md", "docs/results.md"])
def test_the_blocks_are_up_to_date(name):
    path = ROOT / name
    text = path.read_text()
    assert BLOCK.search(text)
    assert fill(text, RESULTS, path.parent) == text, f"run: ftbnn report --markdown {name}"


def test_the_committed_results_can_be_read():
    for name, result in collect(RESULTS).items():
        if result["scale"] == "quick":  # somebody's trial; git does not see it
            continue
        folder = RESULTS / name
        assert all((folder / picture["file"]).exists() for picture in result["pictures"])
        words = (folder / "result.json").read_text()
        assert not [place for place in ("/tmp", "/home", "/root") if place in words], "no paths of somebody's machine"
