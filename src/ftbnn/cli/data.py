"""data: download a data set, or list the ones there are."""

import argparse
from pathlib import Path

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError, unknown
from ftbnn.text import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="the data set to download; without it, all are listed")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the directory to download into")
    parser.add_argument("--mirror", metavar="URL", help="fetch the files from this address instead of the official one")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn data")
    from ftbnn.data import SOURCES, download

    if args.name is None:
        if args.out or args.mirror:
            raise UserError("say which data set: `ftbnn data NAME --out DIR` (`ftbnn data` lists them)")
        _list(as_json=args.json)
        return
    if args.name not in SOURCES:
        raise unknown("data set", args.name, SOURCES, hint="`ftbnn data` lists all")
    if args.out is None:
        raise UserError(f"say where to: `ftbnn data {args.name} --out DIR`")
    files = [str(path) for path in download(args.name, args.out, args.mirror)]
    if args.json:
        print_json({"name": args.name, "data_dir": str(args.out), "files": files})
    else:
        print("\n".join(files))


def _list(*, as_json: bool) -> None:
    from ftbnn.data import SOURCES
    from ftbnn.data.download import REMOTES

    rows = [
        {"name": name, "about": entry.about, "needs_dir": entry.needs_dir, "downloads": name in REMOTES}
        for name, entry in SOURCES.items()
    ]
    if as_json:
        print_json(rows)
        return
    files = {(True, True): "downloads", (True, False): "your own", (False, False): "none needed"}
    cells = [[row["name"], row["about"], files[bool(row["needs_dir"]), bool(row["downloads"])]] for row in rows]
    print(table(["name", "what it is", "files"], cells))
