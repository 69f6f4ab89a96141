"""reproduce: make a table or figure of the paper, the paper's numbers beside ours."""

import argparse
import sys
from pathlib import Path

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError
from ftbnn.text import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ftbnn.experiments.names import EXPERIMENTS  # these two need nothing else
    from ftbnn.experiments.scales import SCALES

    parser.add_argument("what", choices=EXPERIMENTS, metavar="WHAT", help=", ".join(EXPERIMENTS))
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="default: results/WHAT, or results/WHAT-SCALE; finished runs of the same settings in the folders beside "
        "it are taken, as tables share them",
    )
    parser.add_argument("--alone", action="store_true", help="take no runs from the folders beside --out")
    parser.add_argument("--scale", choices=SCALES, help="size of the runs (default: standard)")
    parser.add_argument("--seeds", type=int, metavar="N", help="runs of each kind (default: the scale's)")
    parser.add_argument("--data", help="another data set than the scale's")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where its files are")
    parser.add_argument("--width", type=int, help="channels of the first stage (default: the scale's)")
    parser.add_argument("--image-size", type=int, help="side of the images, for imagefolder, sounds and synthetic data")
    parser.add_argument("--budget", type=float, metavar="M", help="table4: what a network may cost, in millions")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipe of every run; repeatable"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="VARIANT",
        help="train these variants alone, by their names or by those of the table's rows; d18-* is a pattern",
    )
    parser.add_argument("--keep", action="store_true", help="count runs as done that stand in result.json alone")
    parser.add_argument(
        "--show",
        action="store_true",
        help="train nothing: the result of what is there; what is not said is as --out was made with",
    )
    parser.add_argument("--threads", type=int, help="threads of PyTorch (default: all cores)")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn reproduce")
    import torch

    from ftbnn.experiments.reproduce import reproduce, request_for
    from ftbnn.experiments.result import Table
    from ftbnn.training.recipe import parse_settings

    if args.threads is not None:
        if args.threads < 1:
            raise UserError(f"--threads must be 1 or more, not {args.threads}")
        torch.set_num_threads(args.threads)
    request = request_for(
        args.what,
        scale=args.scale,
        out=args.out,
        data=args.data,
        data_dir=args.data_dir,
        seeds=args.seeds,
        width=args.width,
        budget_m=args.budget,
        image_size=args.image_size,
        settings=parse_settings(args.set),
        only=args.only,
        keep=args.keep,
        alone=args.alone,
        show=args.show,
    )
    result = reproduce(request)
    if args.json:
        print_json(result)
        return
    for each in map(Table.from_json, result["tables"]):
        print(f"{each.caption}\n\n{table(each.header, each.cells())}\n")
    files = [str(request.out / picture["file"]) for picture in result["pictures"]]
    print(f"{request.out / 'result.json'} {' '.join(files)}", file=sys.stderr)
