"""methods: how networks become binary, one row each: bits, what is special, what a file needs, published accuracy."""

import argparse
from typing import Any

from ftbnn.cli.output import print_json, require_torch
from ftbnn.text import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("filter", nargs="?", default="", help="show only names that contain this text, in full")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn methods")
    from ftbnn.errors import unknown
    from ftbnn.models import METHODS

    rows = {name: row for name, row in METHODS.items() if args.filter in name}
    if not rows:
        raise unknown("method", args.filter, METHODS)
    facts: list[dict[str, Any]] = [
        {
            "name": name,
            "about": row.about,
            "weight_bits": row.bits[0],
            "input_bits": row.bits[1],
            "order": row.order,
            "special": row.special,
            "file": row.deploys,
            "published": row.published,
            "doubt": row.doubt,
            "recipe": dict(row.recipe),
        }
        for name, row in rows.items()
    ]
    if args.json:
        print_json(facts)
        return
    if args.filter:
        for fact in facts:
            print(fact["name"])
            told = {key: value for key, value in fact.items() if key not in ("name", "recipe") and value}
            told |= {"recipe": " ".join(f"--set {key}={value}" for key, value in fact["recipe"].items())}
            print(*(f"  {key.replace('_', ' '):<12} {value}" for key, value in told.items() if value), sep="\n")
        return
    cells = [[f["name"], f"{f['weight_bits']}/{f['input_bits']}", f["about"], f["file"]] for f in facts]
    print(table(["--method", "bits w/a", "how a network is made binary", "its file needs"], cells))
    print("\n`ftbnn methods NAME` has the published accuracy with its source, and what is not certain.")
    print("abc(M,N) and group-net(K) take other numbers, ci-bcnn(FILE) edges.")
    print("docs/methods.md says where a row differs from its paper.")
