"""design: the widest derived network that a budget allows, in operations or in milliseconds; a check of those."""

import argparse
import sys
from math import inf
from pathlib import Path
from typing import Any

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError
from ftbnn.text import size, table

SIZES = {
    "image_size": 224,
    "classes": 1000,
    "in_channels": 3,
    "stem": "imagenet",
    "stem_bits": None,
    "convention": "paper",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=int, help="depth: 18, 34 or 44 (default with --latency: all)")
    parser.add_argument(
        "--groups", type=int, help="groups of the binary convolutions (default: 1; with --latency: 1, 3, 5 and 8)"
    )
    limit = parser.add_mutually_exclusive_group(required=True)
    limit.add_argument("--budget", type=float, metavar="M", help="limit of FLOPs + BOPs / 64, in millions")
    limit.add_argument("--latency", type=float, metavar="MS", help="limit of milliseconds an image on this machine")
    limit.add_argument(
        "--check", action="store_true", help="what --latency predicts for the paper's 20 networks, and what they take"
    )
    parser.add_argument("--threads", type=int, help="threads of --latency and --check (default: 1)")
    parser.add_argument("--report", type=Path, metavar="DIR", help="with --check: write JSON and README.md there")
    parser.add_argument("--image-size", type=int, default=224, help="side of the square input, in pixels")
    parser.add_argument("--classes", type=int, default=1000, help="number of classes")
    parser.add_argument("--in-channels", type=int, default=3, help="channels of the image")
    parser.add_argument("--stem", choices=("imagenet", "small"), default="imagenet", help="the stem")
    parser.add_argument("--stem-bits", type=int, metavar="8|16", help="round the stem's weights (default: float32)")
    parser.add_argument("--convention", choices=("paper", "conv-only"), default="paper", help="what counts")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn design")
    if args.report and not args.check:
        raise UserError("--report is of --check; leave it out")
    if args.check:
        _run_check(args)
        return
    if args.latency is not None:
        _run_latency(args)
        return
    from ftbnn.budget import BudgetTooLarge, convention
    from ftbnn.budget.report import totals
    from ftbnn.workflows.networks import design

    if args.threads is not None:
        raise UserError("--threads is of --latency and --check; a budget is the same for any number")
    if args.layers is None:
        raise UserError("--budget needs --layers: 18, 34 or 44")
    args.groups = 1 if args.groups is None else args.groups
    if not 0 < args.budget < inf:
        raise UserError(f"--budget is a number of millions above 0, not {args.budget:g}")
    try:
        best, around = design(
            layers=args.layers,
            groups=args.groups,
            limit=1e6 * args.budget,
            image_size=args.image_size,
            classes=args.classes,
            in_channels=args.in_channels,
            stem=args.stem,
            stem_bits=args.stem_bits,
            rule=convention(args.convention),
        )
    except BudgetTooLarge as error:
        raise UserError(f"{error}; --budget is in millions: 90 for 90 million") from error
    rows: list[dict[str, Any]] = [
        {
            "model": f"ftbnn-d{args.layers}-g{args.groups}-v{option.width}",
            "v": option.width,
            "fits": option.fits(1e6 * args.budget),
            "chosen": option.width == best.width,
        }
        | totals(option.budget)
        for option in around
    ]
    if args.json:
        print_json({"limit_m": args.budget, "best": next(r for r in rows if r["chosen"]), "neighbours": rows})
        return
    header = ["", "model", "FLOPs M", "BOPs M", "budget M", "of limit", "params M", "packed", ""]
    cells = [
        [
            "->" if row["chosen"] else "",
            row["model"],
            f"{row['flops_m']:.3f}",
            f"{row['bops_m']:.2f}",
            f"{row['budget_m']:.2f}",
            f"{row['budget_m'] / args.budget:.1%}",
            f"{row['params_m']:.4f}",
            size(row["packed_bytes"]),
            "" if row["fits"] else "over",
        ]
        for row in rows
    ]
    print(table(header, cells))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run_check(args: argparse.Namespace) -> None:
    from ftbnn.bench import report
    from ftbnn.experiments.predictions import prediction_rows, show_timed, verdict

    given = [name for name in ("layers", "groups") if getattr(args, name) is not None]
    given += [name for name, usual in SIZES.items() if getattr(args, name) != usual]
    if given:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UserError(f"--check measures the paper's 20 networks as they are; leave {flags} out")
    if args.report:
        report.create(args.report)
    rows = prediction_rows(threads=1 if args.threads is None else args.threads, say=_say)
    text = f"{show_timed(rows)}\n{verdict(rows)}"
    if args.report:
        report.write(args.report, "predictions", rows, text=text, picture=False)
    if args.json:
        print_json({"networks": rows})
    print(text, file=sys.stderr if args.json else sys.stdout)


def _run_latency(args: argparse.Namespace) -> None:
    from ftbnn.experiments.predictions import show_timed, timed_row
    from ftbnn.models.derived import BLOCKS
    from ftbnn.workflows.latency import GROUPS, widest_within
    from ftbnn.workflows.networks import count_named

    if args.stem != "imagenet" or args.stem_bits is not None or args.convention != "paper":
        what = "leave --stem, --stem-bits and --convention out"
        raise UserError(f"--latency measures networks as the paper has them; {what}")
    threads = 1 if args.threads is None else args.threads
    found = widest_within(
        args.latency,
        layers=tuple(BLOCKS) if args.layers is None else (args.layers,),
        groups=GROUPS if args.groups is None else (args.groups,),
        threads=threads,
        shape=(args.in_channels, args.image_size, args.image_size),
        classes=args.classes,
        say=_say,
    )
    rows: list[dict[str, Any]] = []
    for network in found:
        budget = count_named(
            network.name, image_size=args.image_size, classes=args.classes, in_channels=args.in_channels
        )
        rows.append(timed_row(network.name, budget.budget / 1e6, network))
    rows.sort(key=lambda row: -row["budget_m"])
    if args.json:
        print_json({"limit_ms": args.latency, "threads": threads, "networks": rows})
        return
    print(show_timed(rows))
