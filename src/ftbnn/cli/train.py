"""train: train a network with a recipe into a run directory."""

import argparse
import os
import sys
from pathlib import Path

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError
from ftbnn.text import line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a name from `ftbnn models`, or FILE.py:FACTORY for a network of yours")
    parser.add_argument("--data", default="digits", help="the data set (default: digits, which needs no files)")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where its files are")
    parser.add_argument(
        "--recipe", help="naive, multi-step, teacher, or a sized one as best-cifar (default: naive in the data's size)"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipe; repeatable")
    parser.add_argument("--out", type=Path, metavar="RUN", help="the run directory (default: runs/MODEL-DATA)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out; more epochs extend it")
    parser.add_argument("--teacher", type=Path, metavar="RUN", help="run, checkpoint or resnet18 .pth to distil from")
    parser.add_argument(
        "--init",
        type=Path,
        metavar="FROM",
        help="start from a run's weights, a checkpoint's, a .ftbnn file's or zoo:NAME's",
    )
    parser.add_argument("--seed", type=int, default=0, help="of initialisation, order and augmentation")
    parser.add_argument("--width", type=int, help="channels of the first stage (default: the model's; 16 for digits)")
    parser.add_argument(
        "--method",
        help="how it is made binary, as irnet or abc(3,3); `ftbnn methods` lists them (default: the model's)",
    )
    parser.add_argument("--stem", choices=("imagenet", "small"), help="default: small up to 64 pixels")
    parser.add_argument("--stem-bits", type=int, metavar="8|16", help="round the stem's weights (default: float32)")
    parser.add_argument("--image-size", type=int, help="side of the images, for imagefolder, sounds and synthetic data")
    parser.add_argument("--threads", type=int, help="threads of PyTorch (default: all cores)")
    parser.add_argument("--workers", type=int, default=0, help="processes that decode image files")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument(
        "--save-every", type=int, default=0, metavar="N", help="save every N steps, not just every epoch"
    )
    parser.add_argument("--log-every", type=int, default=50, metavar="N", help="a row of metrics every N steps")
    parser.add_argument("--max-corrupt", type=float, default=0.01, help="share of images, 0 to 1, that may be corrupt")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn train")
    import torch

    from ftbnn.training import Options, Steps
    from ftbnn.training.options import LEAST
    from ftbnn.training.recipe import parse_settings, show
    from ftbnn.workflows.train import plan, train

    for name, bound in {"threads": 1, **LEAST}.items():
        value = getattr(args, name)
        if value is not None and not bound <= value < 2**63:
            raise UserError(f"--{name.replace('_', '-')} must be {bound} or more, not {value}")
    if args.max_corrupt > 1:
        raise UserError(f"--max-corrupt is a share of the images, 0 to 1, not {args.max_corrupt:g}")
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    job = plan(
        args.model,
        args.data,
        data_dir=args.data_dir,
        recipe=args.recipe,
        settings=parse_settings(args.set),
        out=args.out,
        width=args.width,
        stem=args.stem,
        stem_bits=args.stem_bits,
        image_size=args.image_size,
        method=args.method,
    )
    is_first = os.environ.get("RANK", "0") == "0"  # under torchrun one process speaks for all

    def tell() -> None:
        for recipe in job.recipe.steps if isinstance(job.recipe, Steps) else (job.recipe,):
            if is_first:
                print(f"recipe {recipe.name}\n{show(recipe)}", file=sys.stderr)

    options = Options(
        seed=args.seed,
        resume=args.resume,
        device=args.device,
        workers=args.workers,
        save_every=args.save_every,
        log_every=args.log_every,
        max_corrupt=args.max_corrupt,
    )
    scores = train(job, options, teacher=args.teacher, init=args.init, tell=tell)
    if not is_first:
        return
    if args.json:
        print_json({"run": str(job.out), **scores})
        return
    print(
        f"test top-1 {scores['test_top1']:.2f} %, top-5 {scores['test_top5']:.2f} % "
        f"({scores['chosen']}, epoch {scores['epoch']}); run in {line(str(job.out), 200)}"
    )
