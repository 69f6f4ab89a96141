"""budget: what a network costs, in FLOPs, BOPs, parameters and bytes."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ftbnn.cli.output import print_json, require_torch, size, table
from ftbnn.drawing import picture_file
from ftbnn.errors import UserError

if TYPE_CHECKING:
    from ftbnn.budget import Budget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", help="a name from `ftbnn models`, or FILE.py:FACTORY for a network of yours"
    )
    parser.add_argument("--paper", action="store_true", help="the paper's 20 derived networks beside ours")
    parser.add_argument("--image-size", type=int, help="side of the square input, in pixels (default: the model's)")
    parser.add_argument("--classes", type=int, help="number of classes (default: the model's)")
    parser.add_argument("--in-channels", type=int, help="channels of the image (default: the model's)")
    parser.add_argument("--width", type=int, help="channels of the first stage (default: the model's)")
    parser.add_argument("--stem", choices=("imagenet", "small"), help="the model's stem")
    parser.add_argument("--convention", choices=("paper", "conv-only"), default="paper", help="what counts")
    parser.add_argument("--layers", action="store_true", help="one line per layer")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw where the budget goes, stage by stage")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn budget")
    if args.paper == (args.model is not None):
        raise UserError("give a model name, or --paper for the paper's table")
    if args.paper:
        _run_paper(args)
    else:
        _run_model(args)


def _run_model(args: argparse.Namespace) -> None:
    from ftbnn.budget import convention
    from ftbnn.budget.report import layer_rows, plot, summary
    from ftbnn.experiments.counting import count_named

    if args.plot:
        args.plot = picture_file(args.plot)
    budget = count_named(
        args.model,
        image_size=args.image_size,
        classes=args.classes,
        in_channels=args.in_channels,
        stem=args.stem,
        width=args.width,
        rule=convention(args.convention),
    )
    if args.plot:
        plot(budget, args.plot, title=args.model)
    if args.json:
        layers = {"layers": layer_rows(budget)} if args.layers else {}
        print_json({"model": args.model} | summary(budget) | layers)
        return
    if args.layers:
        _print_layers(budget)
        print()
    _print_summary(args.model, budget)
    if args.plot:
        print(f"\ndrawn to {args.plot}")


def _print_layers(budget: "Budget") -> None:
    from ftbnn.budget.report import layer_rows

    rows = [
        [
            row["path"] or "(network)",
            row["kind"],
            row["weights"],
            row["input"],
            "x".join(map(str, row["input_shape"])),
            "x".join(map(str, row["output_shape"])),
            row["groups"],
            f"{row['flops'] / 1e6:.3f}",
            f"{row['bops'] / 1e6:.3f}" + (" (doubled)" if row["doubled"] else ""),
            row["real_params"] + row["binary_params"],
            size(row["packed_bytes"]),
        ]
        for row in layer_rows(budget)
    ]
    header = [
        "layer",
        "kind",
        "weights",
        "input",
        "in",
        "out",
        "groups",
        "FLOPs M",
        "BOPs M",
        "weights #",
        "packed",
    ]
    print(table(header, rows))


def _print_summary(name: str, budget: "Budget") -> None:
    shape = "x".join(map(str, budget.input_shape))
    print(f"{name}, input {shape}, convention {budget.rule.name}")
    print(f"  FLOPs         {budget.flops / 1e6:10.3f} M")
    print(f"  BOPs          {budget.bops / 1e6:10.3f} M")
    print(
        f"  budget        {budget.budget / 1e6:10.3f} M   (FLOPs + BOPs / 64; {budget.binary_share:.1%} of it binary)"
    )
    print(f"  params        {budget.params / 1e6:10.4f} M   (real + binary / 32)")
    print(f"  size packed   {size(budget.packed_bytes):>12}")
    print(f"  size as fp32  {size(budget.fp32_bytes):>12}")


def _run_paper(args: argparse.Namespace) -> None:
    from ftbnn.experiments.budgets import budget_rows, reference_rows

    given = (args.image_size, args.classes, args.in_channels, args.width, args.stem, args.plot)
    if any(given) or args.layers or args.convention != "paper":
        raise UserError("--paper is a table of its own; leave the other options out")
    rows = list(budget_rows())
    if args.json:
        print_json(rows)
        return
    cells = [
        [
            row["layers"],
            row["groups"],
            row["v"],
            f"{row['flops_m']:.3f}",
            f"{row['paper_flops_m']:.1f}",
            f"{row['flops_m'] - row['paper_flops_m']:+.3f}",
            f"{row['bops_m']:.2f}",
            f"{row['paper_bops_m']:.0f}",
            f"{row['bops_m'] - row['paper_bops_m']:+.2f}",
            f"{row['params_m']:.4f}",
            f"{row['paper_params_m']:.2f}",
            f"{row['params_m'] - row['paper_params_m']:+.4f}",
            f"{row['budget_m']:.2f}",
        ]
        for row in rows
    ]
    header = [
        "layers",
        "G",
        "v",
        "FLOPs M",
        "paper",
        "diff",
        "BOPs M",
        "paper",
        "diff",
        "Params M",
        "paper",
        "diff",
    ]
    print(table([*header, "budget M"], cells))
    print()
    references = [[row["what"], row["paper"], f"{row['ours']:.2f}"] for row in reference_rows()]
    print(table(["also printed", "paper", "ours"], references))
