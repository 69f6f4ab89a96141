"""eval: accuracy of a trained network, or of a .ftbnn file, on a test set."""

import argparse
import sys
from pathlib import Path

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError
from ftbnn.text import line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="a run directory (its best epoch), a checkpoint, a .ftbnn file or zoo:NAME")
    parser.add_argument("--data", help="the data set (default: the one it was trained on)")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where its files are")
    parser.add_argument("--workers", type=int, default=0, help="processes that decode image files")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn eval")
    from ftbnn.workflows.deploy import evaluate

    if args.workers < 0:
        raise UserError(f"--workers must be 0 or more, not {args.workers}")
    scores = evaluate(args.checkpoint, args.data, data_dir=args.data_dir, workers=args.workers)
    scores["checkpoint"] = args.checkpoint
    if args.json:
        print_json(scores)
        return
    for path in scores["corrupt"]:
        print(f"skipped a corrupt image: {line(path, 500)}", file=sys.stderr)
    print(
        f"{line(args.checkpoint, 200)} on {scores['data']}, {scores['test_images']} images: "
        f"top-1 {scores['test_top1']:.2f} %, top-5 {scores['test_top5']:.2f} %"
        + (f", loss {scores['test_loss']:.4f}" if "test_loss" in scores else "")
    )
    for worst in scores.get("worst_classes", ()):
        name, other = (line(worst[key], 60) for key in ("class", "taken_for"))
        print(f"  {name}: {worst['top1']:.1f} %, taken for {other} {worst['share']:.1f} %")
