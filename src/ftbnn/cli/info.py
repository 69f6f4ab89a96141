"""info: versions, CPU, threads and the instruction set in use."""

import argparse
import os
from typing import Any

from ftbnn.cli.output import print_json
from ftbnn.machine import describe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None beside --json."""


def collect() -> dict[str, Any]:
    """Everything a bug report needs."""
    return describe() | {"isa_forced": bool(os.environ.get("FTBNN_ISA"))}


def run(args: argparse.Namespace) -> None:
    info = collect()
    if args.json:
        print_json(info)
        return
    for name, version in info["versions"].items():
        print(f"{name:<10} {version}")
    print(f"{'platform':<10} {info['platform']}")
    print(f"{'cpu':<10} {info['cpu']}")
    print(f"{'features':<10} {' '.join(info['features']) or 'none'}")
    print(f"{'cores':<10} {info['cores']}")
    why = "forced by FTBNN_ISA" if info["isa_forced"] else "best of " + ", ".join(info["isas"])
    print(f"{'isa':<10} {info['isa']} ({why})")
