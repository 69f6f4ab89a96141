import json
import re

import pytest

from ftbnn.errors import UserError
from ftbnn.experiments.claims import HOLDS, OPEN, OWN
from ftbnn.experiments.claims_page import effect
from ftbnn.experiments.curves_page import chart
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
ROWS = [
    {
        "claim": "a beats b",
        "where": "table 3",
        "paper": 7.7,
        "ours": 4.0,
        "noise": 1.0,
        "seeds": "3 / 3",
        "verdict": HOLDS,
    },
    {"claim": "b is <none>", "where": OWN, "paper": None, "ours": -0.5, "noise": None, "verdict": f"{OPEN}: few"},
]
CLAIMS = Table("claims", "Claims", COLUMNS, ROWS)
EPOCHS = [
    {"train_loss": 2.0, "train_top1": 30.0, "val_top1": 20.0},
    {"train_loss": 1.0, "train_top1": 50.0, "val_top1": 41.0},
]
RUN = {
    "name": "a-seed0",
    "variant": "a</script>",
    "state": "finished",
    "chosen": "best on validation",
    "train_seconds": 60.0,
    "recipes": [],
    "epochs": EPOCHS,
}
RUNS = [RUN, RUN | {"name": "a-seed1", "epochs": [row | {"val_top1": row["val_top1"] + 2} for row in EPOCHS]}]
DOT = bytes.fromhex("89504e470d0a1a0a")


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results" / "table3"
    folder.mkdir(parents=True)
    (folder / "x.png").write_bytes(DOT)
    write(folder, FACTS, Findings([TABLE, CLAIMS], [Picture("x.png", "A picture")]), RUNS)
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
    assert "src=" not in html.replace('src="data:', ""), "nothing is loaded"
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
        "recipes",
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
    with pytest.raises(UserError, match="it has ablation, claims"):
        fill("<!-- result table3/nothing -->\n<!-- end -->", results, results)


def test_no_results_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no folder"):
        page(tmp_path / "none")


def test_claims_are_counted_and_kept_apart_from_our_own_questions(results):
    html = page(results)
    assert "Of 1 claims that runs were made for, 1 hold, 0 do not, 0 cannot be told" in html
    asked, own = html.split("Questions of our own")
    assert "a beats b" in asked
    assert "b is &lt;none&gt;" in own
    assert '<span class="holds">holds</span>' in asked


def test_an_effect_is_drawn_against_its_interval():
    """In a picture of 150 with an edge of 6 the greatest of all, the paper's 8, is 69 from the middle."""
    drawn = effect(4.0, 2.0, 8.0)
    assert 'class="paper" cx="144.0"' in drawn
    assert 'class="ours" cx="109.5"' in drawn
    assert 'd="M92.2 9H126.8"' in drawn
    assert "noise" not in effect(4.0, None, None)


def test_a_chart_has_the_mean_of_the_seeds_and_their_reach():
    html = chart(RUNS)
    text = re.search(r'<script type="application/json">(.*?)</script>', html)[1]
    data = json.loads(text)
    assert data["scores"] == ["validation top-1 %", "training top-1 %", "training loss"]
    (series,) = data["series"]
    assert (series["label"], series["seeds"]) == ("a</script>", 2)
    assert series["curves"]["validation top-1 %"] == {"mean": [21.0, 42.0], "low": [20.0, 41.0], "high": [22.0, 43.0]}
    without = [{key: value for key, value in row.items() if key != "val_top1"} for row in EPOCHS]
    assert "validation" not in chart([RUNS[0], RUNS[1] | {"epochs": without}])
    older = chart([{key: value for key, value in RUN.items() if key != "chosen"}])
    assert "test top-1 %, seen after every epoch" in older
    assert chart([RUN | {"epochs": EPOCHS[:1]}]) == ""
