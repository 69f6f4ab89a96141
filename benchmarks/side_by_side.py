"""Two versions of ftbnn on one machine, in turns: is the newer as fast as the older?

    python benchmarks/side_by_side.py OLD/.venv/bin/ftbnn NEW/.venv/bin/ftbnn --report DIR

Every measurement is `ftbnn bench ... --json` of either version, in turns; a row is what both print. The ratio is of the
fastest times, which a busy machine disturbs least; the ratio of the medians stands beside it.
"""

import argparse
import json
import platform
import subprocess
from pathlib import Path
from statistics import median

BENCHES = {
    "conv": ["conv"],
    "net": ["net", "ftbnn18", "ftbnn-d18-g1-90m", "ftbnn-d34-g5-135m", "--peers", "", "--threads", "1,2"],
    "train": ["train", "ftbnn18", "--width", "64", "--image-size", "32", "--batch", "32", "--rounds", "5"],
}
NAMES = ("name", "formulation", "precision", "isa", "threads", "batch")  # what tells rows apart, where they have it


def measured(ftbnn: str, words: list[str]) -> dict[tuple[str, ...], dict[str, float]]:
    text = subprocess.run([ftbnn, "bench", *words, "--json"], check=True, capture_output=True, text=True).stdout
    rows = [row for row in json.loads(text) if row.get("engine", "ftbnn") == "ftbnn"]
    return {tuple(str(row[name]) for name in NAMES if name in row): row for row in rows}


def compare(old: str, new: str, words: list[str], rounds: int) -> list[dict[str, object]]:
    seen: dict[str, list[dict[tuple[str, ...], dict[str, float]]]] = {old: [], new: []}
    for number in range(rounds):
        for ftbnn in (old, new) if number % 2 else (new, old):
            seen[ftbnn].append(measured(ftbnn, words))
    rows = []
    for key in seen[old][0].keys() & seen[new][0].keys():
        best = {ftbnn: min(run[key]["min_ms"] for run in runs) for ftbnn, runs in seen.items()}
        middle = {ftbnn: median(run[key]["median_ms"] for run in runs) for ftbnn, runs in seen.items()}
        row = {"what": ", ".join(key), "old_ms": best[old], "new_ms": best[new]}
        rows.append(row | {"ratio": best[old] / best[new], "ratio_of_medians": middle[old] / middle[new]})
    return sorted(rows, key=lambda row: str(row["what"]))


def table(name: str, rows: list[dict[str, object]]) -> str:
    lines = [f"## bench {name}", "", "| | older | newer | ratio | of medians |", "|---|---|---|---|---|"]
    for row in rows:
        times = f"{row['old_ms']:.3f} | {row['new_ms']:.3f} | {row['ratio']:.2f} | {row['ratio_of_medians']:.2f}"
        lines.append(f"| {row['what']} | {times} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each version")
    parser.add_argument("--only", choices=BENCHES, help="one of the benches")
    parser.add_argument("--report", type=Path, help="write README.md and one JSON file per bench there")
    args = parser.parse_args()
    info = json.loads(subprocess.run([args.new, "info", "--json"], check=True, capture_output=True, text=True).stdout)
    old = json.loads(subprocess.run([args.old, "info", "--json"], check=True, capture_output=True, text=True).stdout)
    pages = [
        f"# {old['versions']['ftbnn']} beside {info['versions']['ftbnn']}",
        f"{info['cpu']}, {info['isa']}, {info['cores']} cores, {platform.system()}. Milliseconds, the fastest of "
        f"{args.rounds} turns of each; ratios above 1: the newer is faster.",
    ]
    for name, words in BENCHES.items():
        kept = args.report / f"{name}.json" if args.report else None
        if args.only in (None, name):
            rows = compare(args.old, args.new, words, args.rounds)
            print(table(name, rows), flush=True)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(rows, indent=1) + "\n")
        if kept is not None and kept.exists():
            pages.append(table(name, json.loads(kept.read_text())))
    if args.report:
        (args.report / "README.md").write_text("\n\n".join(pages) + "\n")


if __name__ == "__main__":
    main()
