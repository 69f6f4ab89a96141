"""budget: what a network costs, in FLOPs, BOPs, parameters and bytes."""

import argparse
from pathlib import Path
from typing import Any

from ftbnn.cli.output import print_json, require_torch
from ftbnn.drawing import picture_file
from ftbnn.errors import UserError
from ftbnn.text import counted, line, table


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
    parser.add_argument("--stem-bits", type=int, metavar="8|16", help="round the stem's weights (default: float32)")
    parser.add_argument("--method", help="how it is made binary (default: the model's)")
    parser.add_argument("--convention", choices=("paper", "conv-only"), default="paper", help="what counts")
    parser.add_argument("--layers", action="store_true", help="one line per layer")
    parser.add_argument("--measure", action="store_true", help="each layer's milliseconds here, beside its budget")
    parser.add_argument("--threads", type=int, help="threads of --measure (default: 1)")
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
    from ftbnn.budget.report import plot
    from ftbnn.workflows.networks import count_named

    if args.measure and args.layers:
        raise UserError("--measure shows every layer by itself; leave --layers out")
    if args.threads is not None and not args.measure:
        raise UserError("--threads is of --measure; a budget is the same for any number")
    if args.plot:
        args.plot = picture_file(args.plot)
    budget = count_named(
        args.model,
        image_size=args.image_size,
        classes=args.classes,
        in_channels=args.in_channels,
        stem=args.stem,
        stem_bits=args.stem_bits,
        width=args.width,
        method=args.method,
        rule=convention(args.convention),
    )
    if args.plot:
        plot(budget, args.plot, title=args.model)
    if args.measure:
        _show_measured(args, budget)
    else:
        _show_counted(args, budget)
    if args.plot and not args.json:
        print(f"\ndrawn to {line(str(args.plot), 200)}")


def _show_counted(args: argparse.Namespace, budget: Any) -> None:
    from ftbnn.budget.report import layer_rows, layer_table, sums, totals

    if args.json:
        layers = {"layers": layer_rows(budget)} if args.layers else {}
        print_json({"model": args.model} | totals(budget) | layers)
        return
    if args.layers:
        print(layer_table(budget), end="\n\n")
    print(f"{args.model}, {sums(budget)}")


def _show_measured(args: argparse.Namespace, budget: Any) -> None:
    from ftbnn.workflows.timing import measured_layers

    names = ("classes", "in_channels", "stem", "stem_bits", "width", "method")
    settings = {name: getattr(args, name) for name in names}
    threads = 1 if args.threads is None else args.threads
    rows, isa = measured_layers(args.model, budget, threads=threads, **settings)
    total = sum(row["ms"] for row in rows)
    if args.json:
        print_json({"model": args.model, "isa": isa, "threads": threads, "ms": total, "layers": rows})
        return
    cells = [
        [
            row["path"],
            f"{row['budget_m']:.3f}",
            f"{row['budget_share']:.1%}",
            f"{row['ms']:.3f}",
            f"{row['ms'] / total:.1%}",
        ]
        for row in rows
    ]
    print(table(["layer", "budget M", "share", "ms", "share"], cells))
    print(f"{args.model}: {budget.budget / 1e6:.2f} M, {total:.3f} ms ({counted(threads, 'thread')}, {isa})")


def _run_paper(args: argparse.Namespace) -> None:
    from ftbnn.experiments.budgets import budget_rows, reference_rows

    names = ("image_size", "classes", "in_channels", "width", "stem", "stem_bits", "method", "plot", "threads")
    is_given = any(getattr(args, name) is not None for name in names)
    if is_given or args.layers or args.measure or args.convention != "paper":
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
