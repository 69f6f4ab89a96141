"""train: train a network with a recipe into a run directory."""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import Stopped, UserError
from ftbnn.text import line

if TYPE_CHECKING:
    from ftbnn.workflows.train import Plan

# How a run is carried out, which it does not keep: one that goes on is told again.
MANNER = {"threads": None, "workers": 0, "device": "auto", "save_every": 0, "log_every": 50, "max_corrupt": 0.01}
GIVEN = ("data_dir", "recipe", "width", "stem", "stem_bits", "image_size", "method")  # what makes a plan, and --set


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", help="a name from `ftbnn models`, or FILE.py:FACTORY of yours")
    parser.add_argument("--data", help="the data set (default: digits, which needs no files)")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where its files are")
    parser.add_argument(
        "--recipe", help="naive, multi-step, teacher, or a sized one as best-cifar (default: naive in the data's size)"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipe; repeatable")
    parser.add_argument("--out", type=Path, metavar="RUN", help="the run directory (default: runs/MODEL[-METHOD]-DATA)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out; --set epochs=N extends it")
    parser.add_argument("--teacher", type=Path, metavar="RUN", help="run, checkpoint or resnet18 .pth to distil from")
    parser.add_argument(
        "--init",
        type=Path,
        metavar="FROM",
        help="start from a run's weights, a checkpoint's, a .ftbnn file's or zoo:NAME's",
    )
    parser.add_argument("--seed", type=int, help="of initialisation, order and augmentation (default: 0)")
    parser.add_argument("--width", type=int, help="channels of the first stage (default: the model's; 16 for digits)")
    parser.add_argument(
        "--method",
        help="how it is made binary, as irnet or abc(3,3); `ftbnn methods` lists them; or FILE.py:METHOD, yours",
    )
    parser.add_argument("--stem", choices=("imagenet", "small"), help="default: small up to 64 pixels")
    parser.add_argument("--stem-bits", type=int, metavar="8|16", help="round the stem's weights (default: float32)")
    parser.add_argument("--image-size", type=int, help="side of the images, for imagefolder, sounds and synthetic data")
    parser.add_argument("--threads", type=int, help="threads of PyTorch (default: all cores)")
    parser.add_argument("--workers", type=int, help="processes that decode image files")
    parser.add_argument("--device", help="cpu, cuda or auto")
    parser.add_argument("--save-every", type=int, metavar="N", help="save every N steps, not just every epoch")
    parser.add_argument("--log-every", type=int, metavar="N", help="a row of metrics every N steps")
    parser.add_argument("--max-corrupt", type=float, help="share of images, 0 to 1, that may be corrupt")
    parser.set_defaults(**MANNER)


def _plan(args: argparse.Namespace) -> "Plan":
    """Of a new run, or of the one that goes on."""
    from ftbnn.training.recipe import parse_settings
    from ftbnn.training.run import RunDir
    from ftbnn.workflows.resume import go_on
    from ftbnn.workflows.train import plan, usual_out

    given = {name: getattr(args, name) for name in GIVEN} | {"settings": parse_settings(args.set)}
    data = args.data or "digits"
    if args.model is None and not (args.resume and args.out):
        what = "which run goes on (--out RUN)" if args.resume else "which network: a name from `ftbnn models`, or yours"
        raise UserError(f"say {what}")
    out = args.out or usual_out(args.model, data, args.method)
    if args.resume and RunDir(out).has_run:
        return go_on(out, model=args.model, data=args.data, **given)
    if args.model is None:
        raise UserError(f"nothing to resume: {out} holds no run")
    return plan(args.model, data, out=out, **given)


def _going_on(args: argparse.Namespace, out: Path) -> str:
    """The command that goes on with a run that was stopped."""
    told = {name: getattr(args, name) for name, usual in MANNER.items() if getattr(args, name) != usual}
    words = [word for name, value in told.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    launcher = "torchrun ... -m " if "RANK" in os.environ else ""
    return f"`{launcher}{shlex.join(['ftbnn', 'train', '--resume', '--out', str(out), *words])}`"


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn train")
    import torch

    from ftbnn.training import Options, Steps
    from ftbnn.training.options import LEAST
    from ftbnn.training.recipe import show
    from ftbnn.workflows.train import train

    for name, bound in {"threads": 1, **LEAST}.items():
        value = getattr(args, name)
        if value is not None and not bound <= value < 2**63:
            raise UserError(f"--{name.replace('_', '-')} must be {bound} or more, not {value}")
    if args.max_corrupt > 1:
        raise UserError(f"--max-corrupt is a share of the images, 0 to 1, not {args.max_corrupt:g}")
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    job = _plan(args)
    is_first = os.environ.get("RANK", "0") == "0"  # under torchrun one process speaks for all

    def tell() -> None:
        for recipe in job.recipe.steps if isinstance(job.recipe, Steps) else (job.recipe,):
            if is_first:
                print(f"recipe {recipe.name}\n{show(recipe)}", file=sys.stderr)

    options = Options(
        seed=job.seed if args.seed is None else args.seed,
        resume=args.resume,
        device=args.device,
        workers=args.workers,
        save_every=args.save_every,
        log_every=args.log_every,
        max_corrupt=args.max_corrupt,
    )
    try:
        scores = train(job, options, teacher=args.teacher or job.teacher, init=args.init or job.init, tell=tell)
    except Stopped as stopped:
        raise Stopped(stopped.signal, stopped.where, again=_going_on(args, job.out)) from None
    if not is_first:
        return
    if args.json:
        print_json({"run": str(job.out), **scores})
        return
    print(
        f"test top-1 {scores['test_top1']:.2f} %, top-5 {scores['test_top5']:.2f} % "
        f"({scores['chosen']}, epoch {scores['epoch']}); run in {line(str(job.out), 200)}"
    )
