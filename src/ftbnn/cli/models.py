"""models: the networks that can be built by name, and the trained ones that ship."""

import argparse

from ftbnn.cli.output import print_json, require_torch
from ftbnn.text import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("filter", nargs="?", default="", help="show only names that contain this text")
    parser.add_argument("--zoo", action="store_true", help="the trained networks: `ftbnn predict zoo:NAME photo.jpg`")


def run(args: argparse.Namespace) -> None:
    if args.zoo:
        _run_zoo(args)
        return
    require_torch("ftbnn models")
    from ftbnn.errors import unknown
    from ftbnn.models import REGISTRY

    entries = {name: entry for name, entry in REGISTRY.items() if args.filter in name}
    if not entries:
        raise unknown("model", args.filter, REGISTRY)
    if args.json:
        print_json(
            [
                {
                    "name": name,
                    "about": entry.about,
                    "image_size": entry.image_size,
                    "in_channels": entry.in_channels,
                    "classes": entry.classes,
                }
                for name, entry in entries.items()
            ]
        )
        return
    print(table(["name", "what it is"], [[name, entry.about] for name, entry in entries.items()]))
    print("\nAny derived network: ftbnn-dDEPTH-gGROUPS-vWIDTH, DEPTH 18, 34 or 44. Your own: FILE.py:FACTORY.")
    print("`ftbnn methods` lists how they are made binary: --method NAME.")


def _run_zoo(args: argparse.Namespace) -> None:
    from ftbnn import zoo
    from ftbnn.errors import unknown
    from ftbnn.experiments.report import zoo_table

    names = [args.filter] if args.filter in zoo.names() else [name for name in zoo.names() if args.filter in name]
    cards = [zoo.card(name) for name in names]
    if not cards:
        raise unknown("zoo network", args.filter, zoo.names())
    if args.json:
        print_json(cards)
        return
    listed = zoo_table()
    print(table(listed.header, [row for row in listed.cells() if row[0] in names]))
    if len(cards) == 1:
        card = cards[0]
        about = [card["about"]] if card.get("about") else []
        worst = [f"  {one['class']} {one['top1']:.1f} %, taken for {one['taken_for']}" for one in card["worst_classes"]]
        facts = [
            f"licence of the data: {card['licence']}",
            "worst classes",
            *worst,
            f"timed by {card['latency_command']}",
        ]
        print(*["", *about, *facts, "made by", *(f"  {command}" for command in card["commands"])], sep="\n")
