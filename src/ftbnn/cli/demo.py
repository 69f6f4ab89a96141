"""demo: a page to play with in a browser, served here or written as static files. Needs no PyTorch."""

import argparse
from pathlib import Path

from ftbnn.cli.output import print_json
from ftbnn.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--serve", action="store_true", help="serve the page until Ctrl-C")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write it to DIR, for any web server")
    parser.add_argument("--host", default="127.0.0.1", help="address of --serve (0.0.0.0: for other computers too)")
    parser.add_argument("--port", type=int, default=8000, help="port of --serve; 0 takes a free one")


def run(args: argparse.Namespace) -> None:
    from ftbnn import page

    if args.serve == (args.out is not None):
        raise UserError("say --serve to serve the page, or --out DIR to write it")
    if args.out is not None:
        count = page.write(args.out)
        print_json({"files": count, "folder": str(args.out)}) if args.json else print(f"{count} files in {args.out}")
        return
    if not 0 <= args.port < 2**16:
        raise UserError(f"--port is 0 to 65535, not {args.port}")
    with page.server(args.host, args.port) as server:
        address = f"http://{args.host}:{server.server_port}/"
        print_json({"address": address}) if args.json else print(f"{address} (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
