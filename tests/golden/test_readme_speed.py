"""README's table of speed is the committed report's, line by line."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEYS = ("name", "engine", "precision", "isa", "median_ms", "min_ms")


def lines():
    report = sorted((ROOT / "benchmarks" / "reports").glob("*-engine/net.json"))[-1]
    rows = [row for row in json.loads(report.read_text())["rows"] if (row["threads"], row["batch"]) == (1, 1)]
    for row in sorted(rows, key=lambda row: row["min_ms"]):
        cells = [f"{row[key]:.2f}" if key.endswith("_ms") else row[key] for key in KEYS]
        yield f"| {' | '.join(cells)} |"


def test_the_table_of_speed_is_the_report():
    block = (ROOT / "README.md").read_text().partition("<!-- speed -->\n")[2].partition("<!-- end -->")[0]
    assert block.splitlines()[2:] == list(lines())
