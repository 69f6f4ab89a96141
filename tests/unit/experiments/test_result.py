import json

import pytest

from ftbnn.errors import UserError
from ftbnn.experiments.report import collect, fill, missing, page
from ftbnn.experiments.result import Column, Findings, Picture, Table, read, write
from ftbnn.json_text import dumps

FACTS = {
    "what": "table3",
    "title": "Table <3>",
    "about": "made with `ftbnn`",
    "scale": "quick",
    "scale_about": "a trial",
    "data": "digits",
    "width": 4,
    "epochs": 1,
    "seeds": 1,
    "settings": {},
    "command": "ftbnn reproduce table3",
    "runs_finished": 1,
    "runs_planned": 2,
    "train_seconds": 61.0,
    "machine": {"cpu": "a CPU", "threads": 2, "versions": {"torch": "2"}},
    "written": "2026-01-01",
}
COLUMNS = (Column("name", "variant"), Column("paper", "paper", ".1f"), Column("ours", "ours", ".2f"))
TABLE = Table("ablation", "The ablation", COLUMNS, [{"name": "a|b", "paper": 60.2, "ours": None}])
DOT = bytes.fromhex("89504e470d0a1a0a")


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results" / "table3"
    folder.mkdir(parents=True)
    (folder / "x.png").write_bytes(DOT)
    write(folder, FACTS, Findings([TABLE], [Picture("x.png", "A picture")]), [])
    return folder.parent


def test_cells_are_written_as_the_columns_say():
    assert TABLE.cells() == [["a|b", "60.2", "\u2013"]]
    assert TABLE.markdown().splitlines()[2] == "| a/b | 60.2 | \u2013 |"


def test_a_result_reads_back(results):
    value = read(results / "table3")
    assert Table.from_json(value["tables"][0]).cells() == TABLE.cells()
    assert value["command"] == FACTS["command"]


def test_json_keeps_innermost_objects_on_a_line():
    value = {"a": [{"x": k, "y": 0.25} for k in range(20)], "b": {"c": None}}
    text = dumps(value)
    assert json.loads(text) == value
    assert '\n  {"x": 3, "y": 0.25},\n' in text


@pytest.mark.parametrize("text", ["", "[]", '{"what": "table3"}'])
def test_a_broken_result_is_one_line(results, text):
    (results / "table3" / "result.json").write_text(text)
    with pytest.raises(UserError, match=r"result\.json"):
        collect(results)


def test_the_page_stands_alone(results):
    html = page(results)
    assert "http" not in html.replace("arXiv", "")
    assert "<script" not in html
    assert 'name="viewport"' in html
    assert "Table &lt;3&gt;" in html
    assert "data:image/png;base64,iVBORw0KGgo" in html
    assert "<code>ftbnn reproduce figure2</code>" in html, "what is missing is said"
    assert missing(collect(results)) == [
        "figure1",
        "figure2",
        "table1",
        "table2",
        "table4",
        "methods",
        "deploy",
        "backends",
    ]


def test_blocks_of_markdown_are_made_anew(results):
    text = "before\n<!-- result table3/ablation -->\nold\n<!-- end -->\nafter <!-- result table1/x -->\n<!-- end -->\n"
    filled = fill(text, results, results.parent)
    assert filled.startswith("before\n")
    assert "after" in filled
    assert "| a/b | 60.2 |" in filled
    assert "old" not in filled
    assert "![A picture](results/table3/x.png)" in fill(
        "<!-- result table3/pictures -->\n<!-- end -->", results, results.parent
    )
    assert "Not run yet: `ftbnn reproduce table1`" in filled
    assert fill(filled, results, results.parent) == filled
    with pytest.raises(UserError, match="it has ablation"):
        fill("<!-- result table3/nothing -->\n<!-- end -->", results, results)


def test_no_results_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no folder"):
        page(tmp_path / "none")
