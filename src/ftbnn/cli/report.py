"""report: all results as one HTML page, and inside Markdown files. Needs no PyTorch."""

import argparse
from pathlib import Path

from ftbnn.cli.output import print_json
from ftbnn.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="?", type=Path, default=Path("results"), help="default: results")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="the page (default: report.html)")
    parser.add_argument(
        "--markdown",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="instead of the page: renew the blocks `<!-- result WHAT/TABLE -->` of these files",
    )


def run(args: argparse.Namespace) -> None:
    from ftbnn.experiments.report import collect, fill, missing, page
    from ftbnn.files import write_atomically

    if args.markdown and args.out:
        raise UserError("-o is for the page, --markdown for files that are there; give one of them")
    written = []
    for path in args.markdown or ():
        try:
            before = path.read_text()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}") from error
        write_atomically(path, fill(before, args.results, path.parent).encode())
        written.append(path)
    if not args.markdown:
        out = args.out or Path("report.html")
        write_atomically(out, page(args.results).encode())
        written.append(out)
    results = collect(args.results)
    if args.json:
        facts = {"results": list(results), "missing": missing(results), "written": [str(path) for path in written]}
        print_json(facts)
        return
    for path in written:
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB of {len(results)} results")
    if absent := missing(results):
        print(f"not run: {', '.join(absent)}")
