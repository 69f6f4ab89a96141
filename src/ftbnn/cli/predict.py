"""predict: classify pictures, or sounds as pictures, with a .ftbnn file. Needs no PyTorch."""

import argparse
from typing import Any

from ftbnn.cli.output import print_json, say
from ftbnn.errors import UserError
from ftbnn.text import line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a .ftbnn file, or zoo:NAME")
    parser.add_argument(
        "images", nargs="+", metavar="IMAGE", help="pictures of any size, or .wav files; - is standard input"
    )
    parser.add_argument("--top", type=int, default=5, help="how many classes to show")
    parser.add_argument("--threads", type=int, help="default: one per core")


def run(args: argparse.Namespace) -> None:
    from ftbnn.runtime import load

    if args.top < 1:
        raise UserError(f"--top must be 1 or more, not {args.top}")
    model = load(args.model, threads=args.threads)
    answers: list[dict[str, Any]] = []
    for path in args.images:  # one by one: photos are large, and one that is broken is no reason to forget the others
        try:
            guesses = model.top([_read(path, model.input_shape)], args.top)[0]
        except UserError as error:
            answers.append({"image": path, "error": str(error)})
            continue
        top = [{"class": guess.name, "index": guess.index, "share": guess.share} for guess in guesses]
        answers.append({"image": path, "top": top})
        if not args.json:
            print(line(path, 200))
            for guess in guesses:
                print(f"  {guess.share:7.2%}  {line(guess.name)}")
    if args.json:
        print_json(answers)
    errors = [answer["error"] for answer in answers if "error" in answer]
    if not errors:
        return
    if args.json:  # which has them all
        others = f" (and {len(errors) - 1} more of {len(args.images)})" if len(errors) > 1 else ""
        raise UserError(errors[0] + others)
    for earlier in errors[:-1]:
        say(f"ftbnn predict: {earlier}")
    raise UserError(errors[-1])


def _read(path: str, shape: tuple[int, int, int]) -> Any:
    """What the network is to look at."""
    from ftbnn.runtime.images import read_picture
    from ftbnn.sounds import ENDINGS, picture, read_wav

    if not path.lower().endswith(ENDINGS):
        return read_picture(path)
    channels, rows, columns = shape
    if channels != 1:
        raise UserError(f"{line(path, 200)} is a sound, which is a grey picture; the network takes {channels} channels")
    return picture(*read_wav(path), rows=rows, columns=columns)
