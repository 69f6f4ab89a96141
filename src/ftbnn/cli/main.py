"""`ftbnn VERB ...`: the list of verbs and the one place where a user's mistake becomes one line and exit code 2."""

import argparse
import errno
import os
import re
import sys
import warnings
from collections.abc import Container, Sequence
from typing import NoReturn

from ftbnn.cli import (
    bench,
    budget,
    curves,
    data,
    demo,
    design,
    export,
    import_,
    info,
    inspect,
    methods,
    models,
    predict,
    report,
    reproduce,
    train,
)
from ftbnn.cli import eval as evaluate
from ftbnn.cli.output import say
from ftbnn.errors import Stopped, UserError, unknown

VERBS = {
    "info": info,
    "models": models,
    "methods": methods,
    "budget": budget,
    "design": design,
    "data": data,
    "train": train,
    "eval": evaluate,
    "curves": curves,
    "export": export,
    "import": import_,
    "inspect": inspect,
    "predict": predict,
    "demo": demo,
    "bench": bench,
    "reproduce": reproduce,
    "report": report,
}


class _Parser(argparse.ArgumentParser):
    """Wrong usage is one line too, with the nearest verb for one that is none."""

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"argument VERB: invalid choice: '([^']*)'", message):
            message = str(unknown("verb", found[1], VERBS))
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` shows what it takes)\n")


def parser() -> argparse.ArgumentParser:
    main = _Parser(prog="ftbnn", description="1-bit convolutional networks: count, design, train, deploy.")
    verbs = main.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        about = (verb.__doc__ or "").splitlines()[0].partition(": ")[2]
        sub = verbs.add_parser(name, help=about, description=about)
        verb.add_arguments(sub)
        sub.add_argument("--json", action="store_true", help="print JSON on standard output")
    return main


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    say(f"ftbnn: warning: {message}")


def _in_flags(text: str, options: Container[str]) -> str:
    """An error of the library names an option in brackets, (max_corrupt): here it is (--max-corrupt)."""
    return re.sub(r"\((\w+)\)", lambda m: f"(--{m[1].replace('_', '-')})" if m[1] in options else m[0], text)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    args, extra = parser().parse_known_args(argv)
    warnings.showwarning = _show_warning
    try:
        if extra:
            how = "; settings of the recipe are said as --set KEY=VALUE" if "set" in args else ""
            raise UserError(f"no such option: {' '.join(extra)}{how} (`ftbnn {args.verb} --help` lists what there is)")
        VERBS[args.verb].run(args)
        sys.stdout.flush()
    except UserError as error:
        say(f"ftbnn {args.verb}: {_in_flags(str(error), vars(args))}")
        return 2
    except Stopped as stopped:
        say(f"ftbnn {args.verb}: {stopped}")
        return 128 + stopped.signal
    except BrokenPipeError:  # `ftbnn models | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still in Python's buffer
        print(f"ftbnn {args.verb}: cannot write the output: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"ftbnn {args.verb}: interrupted", file=sys.stderr)
        return 130
    return 0


def entry() -> NoReturn:
    code = main()
    if "torch.distributed" in sys.modules and os.environ.get("WORLD_SIZE", "1") != "1":
        from ftbnn.training.distributed import leave

        leave(code)
    sys.exit(code)
