"""methods: how networks become binary, one row each: bits, what is special, what a file needs, accuracies."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftbnn.cli.output import print_json, require_torch
from ftbnn.text import table

if TYPE_CHECKING:
    from ftbnn.models import Entry, Method

RESULTS = Path("results")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    told = "show only names that contain this text, in full; or FILE.py:METHOD, a row of yours"
    parser.add_argument("filter", nargs="?", default="", help=told)
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="where `ftbnn reproduce methods` has left our accuracies (default: results, where there are such)",
    )


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn methods")
    from ftbnn.errors import unknown
    from ftbnn.models import METHODS, REGISTRY, method_named
    from ftbnn.own import is_own

    ours = _ours(RESULTS if args.results is None else args.results, must=args.results is not None)
    facts = [_of_method(name, row, ours) for name, row in METHODS.items()]
    facts += [_of_network(name, entry) for name, entry in REGISTRY.items() if entry.published]
    shown = [fact for fact in facts if args.filter in fact["name"]]
    if not shown and ("(" in args.filter or is_own(args.filter)):
        shown = [_of_method(args.filter, method_named(args.filter), ours)]
    if not shown:
        raise unknown("method", args.filter, [fact["name"] for fact in facts])
    if args.json:
        print_json(shown)
    elif args.filter:
        _show_in_full(shown)
    else:
        _show(shown)


def _of_method(name: str, row: "Method", ours: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "is_network": False,
        "about": row.about,
        "weight_bits": row.bits[0],
        "input_bits": row.bits[1],
        "order": row.order,
        "special": row.special,
        "file": row.deploys,
        "published": row.published,
        "ours": ours.get(name, ""),
        "doubt": row.doubt,
        "recipe": dict(row.recipe),
    }


def _of_network(name: str, entry: "Entry") -> dict[str, Any]:
    return {
        "name": name,
        "is_network": True,
        "about": entry.about,
        "weight_bits": 1,
        "input_bits": 1,
        "special": f"a network of its own: ftbnn train {name}",
        "file": entry.deploys,
        "published": entry.published,
        "ours": "",
        "doubt": entry.doubt,
        "recipe": {},
    }


def _ours(folder: Path, *, must: bool) -> dict[str, str]:
    """Test accuracies by method, with what they were measured on, of the result of `ftbnn reproduce methods`."""
    from ftbnn.experiments.result import read

    if not must and not (folder / "methods").exists():
        return {}
    result = read(folder / "methods")
    rows = [row for listed in result["tables"] if listed["name"] == "methods" for row in listed["rows"]]
    return {
        row["method"]: f"{result['data']} {row['top1']:.2f} (width {result['width']}, {row['epochs']} epochs, "
        f"seeds: {row['seeds']})"
        for row in rows
        if row["top1"] is not None
    }


def _show(facts: list[dict[str, Any]]) -> None:
    methods = [fact for fact in facts if not fact["is_network"]]
    networks = [fact for fact in facts if fact["is_network"]]
    for title, listed in (("--method", methods), ("network with a method", networks)):
        cells = [[f["name"], f"{f['weight_bits']}/{f['input_bits']}", f["about"], f["file"]] for f in listed]
        print(table([title, "bits w/a", "how a network is made binary", "its file needs"], cells), end="\n\n")
    cells = [[fact["name"], *_split(fact["published"]), fact["ours"]] for fact in facts]
    print(table(["published top-1", "ImageNet", "CIFAR-10", "ours"], cells))
    print("\n`ftbnn methods NAME` has all of a row: what is special, and what is not certain.")
    print("abc(M,N) and group-net(K) take other numbers, ci-bcnn(FILE) edges.")
    print("docs/methods.md says where a row differs from its paper.")


def _split(published: str) -> list[str]:
    """What was published on ImageNet, and on CIFAR-10; a source that is named once is of both."""
    parts = [part.strip() for part in published.split(";")]
    source = published[published.rfind("(") :]
    found = []
    for data in ("ImageNet ", "CIFAR-10 "):
        told = "; ".join(part.removeprefix(data) for part in parts if part.startswith(data))
        found.append(told if "(" in told or not told else f"{told} {source}")
    return found


def _show_in_full(facts: list[dict[str, Any]]) -> None:
    for fact in facts:
        print(fact["name"])
        told = {key: value for key, value in fact.items() if key not in ("name", "is_network", "recipe") and value}
        told |= {"recipe": " ".join(f"--set {key}={value}" for key, value in fact["recipe"].items())}
        print(*(f"  {key.replace('_', ' '):<12} {value}" for key, value in told.items() if value), sep="\n")
