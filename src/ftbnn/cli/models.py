"""models: the networks that can be built by name."""

import argparse

from ftbnn.cli.output import print_json, require_torch, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("filter", nargs="?", default="", help="show only names that contain this text")


def run(args: argparse.Namespace) -> None:
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
