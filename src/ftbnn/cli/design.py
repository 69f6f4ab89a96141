"""design: the widest derived network that a budget allows."""

import argparse
from typing import Any

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError
from ftbnn.text import size, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=int, required=True, help="depth: 18, 34 or 44")
    parser.add_argument("--groups", type=int, default=1, help="groups of the binary convolutions")
    parser.add_argument(
        "--budget", type=float, required=True, metavar="M", help="limit of FLOPs + BOPs / 64, in millions"
    )
    parser.add_argument("--image-size", type=int, default=224, help="side of the square input, in pixels")
    parser.add_argument("--classes", type=int, default=1000, help="number of classes")
    parser.add_argument("--in-channels", type=int, default=3, help="channels of the image")
    parser.add_argument("--stem", choices=("imagenet", "small"), default="imagenet", help="the stem")
    parser.add_argument("--convention", choices=("paper", "conv-only"), default="paper", help="what counts")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn design")
    from ftbnn.budget import convention
    from ftbnn.budget.report import totals
    from ftbnn.workflows.networks import design

    if not args.budget > 0:
        raise UserError(f"--budget is a number of millions above 0, not {args.budget:g}")
    best, around = design(
        layers=args.layers,
        groups=args.groups,
        limit=1e6 * args.budget,
        image_size=args.image_size,
        classes=args.classes,
        in_channels=args.in_channels,
        stem=args.stem,
        rule=convention(args.convention),
    )
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
