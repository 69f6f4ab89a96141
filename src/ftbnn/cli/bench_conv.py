"""bench conv: single layers in our engine beside the roof of their ISA."""

import argparse
from pathlib import Path
from typing import Any

from ftbnn.cli.bench_net import names
from ftbnn.cli.output import print_json, require_torch
from ftbnn.machine import capabilities
from ftbnn.text import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--isa", type=names, default=[], metavar="I,...", help="default: all of this machine but portable"
    )
    parser.add_argument("--rounds", type=int, default=40, help="turns of each layer, five calls each")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write JSON and README.md there")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn bench conv")
    from ftbnn.bench import report
    from ftbnn.bench.conv import measure
    from ftbnn.bench.ours import different_isas, isas_of

    if args.report:
        report.create(args.report)
    rows = measure(isas_of(args.isa) if args.isa else different_isas(), rounds=args.rounds)
    text = f"{capabilities()['cpu']}, one thread; GMAC/s and share are those of the fastest call\n{show(rows)}"
    if args.report:
        report.write(args.report, "conv", rows, text=text, picture=False)
    if args.json:
        print_json(rows)
    else:
        print(text)


def show(rows: list[dict[str, Any]]) -> str:
    header = ["layer", "precision", "isa", "median ms", "min ms", "GMAC/s", "roof", "roof GMAC/s", "share"]
    cells = [
        [
            row["name"],
            row["precision"],
            row["isa"],
            f"{row['median_ms']:.4f}",
            f"{row['min_ms']:.4f}",
            f"{row['gmacs_per_s']:.1f}",
            row["roof"] or "",
            f"{row['roof_gmacs_per_s']:.1f}" if row["roof"] else "",
            f"{100 * row['share_of_roof']:.0f}%" if row["roof"] else "",
        ]
        for row in rows
    ]
    return table(header, cells)
