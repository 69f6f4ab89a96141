"""bench loops: the ways to count a binary convolution on this CPU, as loops that live in registers."""

import argparse
from pathlib import Path

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError
from ftbnn.machine import capabilities
from ftbnn.text import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=40, help="turns of each loop, a millisecond each")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write JSON and README.md there")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn bench loops")
    from ftbnn.bench import report
    from ftbnn.bench.loops import measure

    rows = measure(rounds=args.rounds)
    if not rows:
        raise UserError(f"there are no loops of {capabilities()['isa']}; choose another ISA with FTBNN_ISA")
    cells = [[row["name"], row["instructions"], f"{row['gmacs_per_s']:.0f}"] for row in rows]
    text = f"{capabilities()['cpu']}, one thread; GMAC/s of the fastest turn, operands in registers\n"
    text += table(["loop", "instructions", "GMAC/s"], cells)
    if args.report:
        report.create(args.report)
        report.write(args.report, "loops", rows, text=text, picture=False)
    if args.json:
        print_json(rows)
    else:
        print(text)
