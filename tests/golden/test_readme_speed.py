"""The tables of docs/speed.md are the committed reports', line by line, and so is what README says of them."""

import json
import re
from pathlib import Path

from ftbnn.experiments.speeds import speed_rows

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "speed.md").read_text()
KEYS = ("name", "engine", "precision", "isa", "median_ms", "min_ms")


def report(file):
    """The newest report that has such a file."""
    return json.loads(sorted((ROOT / "benchmarks" / "reports").glob(file))[-1].read_text())


def line(*cells):
    return f"| {' | '.join(cells)} |"


def engine_report(kind, file):
    """Of the report that the page speaks of first, or of its sibling."""
    name = re.search(r"\[the report\]\(../benchmarks/reports/(.*?)/README.md\)", PAGE)[1]
    return report(f"{name}{kind}/{file}")


def engine_lines():
    rows = [row for row in engine_report("", "net.json")["rows"] if (row["threads"], row["batch"]) == (1, 1)]
    for row in sorted(rows, key=lambda row: row["min_ms"]):
        yield line(*(f"{row[key]:.2f}" if key.endswith("_ms") else row[key] for key in KEYS))


def paper_lines():
    best, held = (speed_rows(engine_report(kind, "paper.json")["rows"]) for kind in ("", "-avx2"))
    for row, other in zip(best, held, strict=True):
        assert row["name"] == other["name"]
        facts = [f"{row[key]:.1f}" if row[key] else "" for key in ("budget_m", "paper_top1")]
        times = [f"{row[key]:.2f}" for key in ("median_ms", "min_ms", "int8", "fp32")]
        yield line(row["name"], *facts, *times, *(f"{other[key]:.2f}" for key in ("median_ms", "int8", "fp32")))


def training_lines():
    for case in ("width16-32px", "width64-32px", "width64-224px"):
        rows = {row["formulation"]: row for row in report(f"*-native-training/{case}.json")}
        plain, native = rows["plain"], rows["native"]
        yield line(
            f"{native['width'] or 64}, {native['image_size']} x {native['image_size']}, batch {native['batch']}",
            *(f"{rows[name]['images_per_s']:.1f}" for name in ("plain", "torch", "native", "native8")),
            *(
                f"{rows[name]['speedup']:.2f} ({plain['min_ms'] / rows[name]['min_ms']:.2f})"
                for name in ("native", "native8")
            ),
            f"{native['peak_mb'] / plain['peak_mb']:.2f}",
        )


def block(name):
    return PAGE.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0]


def test_the_table_of_speed_is_the_report():
    assert block("speed").splitlines()[2:] == list(engine_lines())


def test_the_table_of_the_papers_networks_is_the_report():
    assert block("paper").splitlines()[2:] == list(paper_lines())


def test_the_table_of_training_speed_is_the_report():
    assert block("training").splitlines()[2:] == list(training_lines())


def test_the_readme_says_the_same():
    rows = [row for row in engine_report("", "net.json")["rows"] if (row["threads"], row["batch"]) == (1, 1)]
    (ours,) = (row["median_ms"] for row in rows if (row["name"], row["engine"]) == ("ftbnn18", "ftbnn"))

    def times(precision):
        peers = [row["median_ms"] for row in rows if row["engine"] != "ftbnn" and row["precision"] == precision]
        return f"{min(peers) / ours:.1f} times"

    said = " ".join((ROOT / "README.md").read_text().split())
    assert f"takes FTBNN-18 {ours:.2f} ms on one thread" in said
    assert f"{times('fp32')} as fast as the best fp32 ResNet-18, {times('int8')} int8" in said
    assert f"{times('binary')} OpenVINO's binary network" in said
