"""curves: draw loss and accuracy of runs over the epochs."""

import argparse
from pathlib import Path

from ftbnn.cli.output import print_json, require_torch
from ftbnn.text import line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("-o", "--out", type=Path, default=Path("curves.png"), metavar="FILE", help="the picture")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn curves")
    from ftbnn.training.curves import load_curve, plot

    drawn = plot(args.runs, args.out)
    if args.json:
        print_json({str(run): load_curve(run) for run in args.runs})
        return
    print(f"drawn to {line(str(drawn), 200)}")
