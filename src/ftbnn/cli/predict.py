"""predict: classify pictures with a .ftbnn file. Needs no PyTorch."""

import argparse
from pathlib import Path
from typing import Any

from ftbnn.cli.output import print_json
from ftbnn.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a .ftbnn file, or zoo:NAME")
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="picture files of any size")
    parser.add_argument("--top", type=int, default=5, help="how many classes to show")
    parser.add_argument("--threads", type=int, help="default: one per core")


def run(args: argparse.Namespace) -> None:
    import numpy as np

    from ftbnn.runtime import load
    from ftbnn.runtime.images import read_picture

    if args.top < 1:
        raise UserError(f"--top must be 1 or more, not {args.top}")
    model = load(args.model, threads=args.threads)
    answers: list[dict[str, Any]] = []
    errors: list[str] = []
    for path in args.images:  # one by one: photos are large, and one that is broken is no reason to forget the others
        try:
            scores = model([read_picture(path)])[0]
        except UserError as error:
            errors.append(str(error))
            continue
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        best = np.argsort(-shares, kind="stable")[: args.top]
        names = [model.class_names[k] if model.class_names else str(k) for k in best]
        top = [{"class": name, "index": int(k), "share": float(shares[k])} for name, k in zip(names, best, strict=True)]
        answers.append({"image": str(path), "top": top})
        if not args.json:
            print(path)
            for row in top:
                print(f"  {row['share']:7.2%}  {row['class']}")
    if args.json:
        print_json(answers)
    if errors:
        others = f" (and {len(errors) - 1} more of {len(args.images)})" if len(errors) > 1 else ""
        raise UserError(errors[0] + others)
