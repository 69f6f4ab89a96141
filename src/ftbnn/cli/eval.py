"""eval: accuracy of a trained network, or of a .ftbnn file, on a test set."""

import argparse
import sys
from pathlib import Path

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="a run directory (its best epoch), a checkpoint, a .ftbnn file or zoo:NAME")
    parser.add_argument("--data", help="the data set (default: the one it was trained on)")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where its files are")
    parser.add_argument("--workers", type=int, default=0, help="processes that decode image files")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn eval")
    from ftbnn.training.named import evaluate_named
    from ftbnn.zoo import card, name_in, resolve

    if args.workers < 0:
        raise UserError(f"--workers must be 0 or more, not {args.workers}")
    path = resolve(args.checkpoint)
    if path.suffix == ".ftbnn":
        from ftbnn.experiments.deploying import evaluate_file

        name = name_in(args.checkpoint)
        data = args.data or (card(name)["data"] if name is not None else None)
        if data is None:
            raise UserError("a .ftbnn file does not say what it was trained on: give --data")
        scores = evaluate_file(path, data, args.data_dir, workers=args.workers)
        scores["checkpoint"] = args.checkpoint
    else:
        scores = evaluate_named(path, args.data, args.data_dir, workers=args.workers)
    if args.json:
        print_json(scores)
        return
    for path in scores["val_corrupt"]:
        print(f"skipped a corrupt image: {path}", file=sys.stderr)
    print(
        f"{scores['checkpoint']} on {scores['data']}, {scores['val_images']} images: top-1 {scores['val_top1']:.2f} %, "
        f"top-5 {scores['val_top5']:.2f} %" + (f", loss {scores['val_loss']:.4f}" if "val_loss" in scores else "")
    )
