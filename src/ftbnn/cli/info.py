"""info: versions, CPU, threads and the instruction set in use."""

import argparse
import os
import platform
from importlib import metadata
from typing import Any

from ftbnn import _native
from ftbnn.cli.output import print_json

PACKAGES = ("ftbnn", "numpy", "pillow", "torch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None beside --json."""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def collect() -> dict[str, Any]:
    """Everything a bug report needs. Versions are read from the installed metadata: nothing is imported for it."""
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "cpu": _native.cpu_name(),
        "cpu_features": _native.cpu_features(),
        "threads": len(os.sched_getaffinity(0)),
        "isas": _native.isas(),
        "isa": _native.isa_in_use(),
        "isa_forced": bool(os.environ.get("FTBNN_ISA")),
    }


def run(args: argparse.Namespace) -> None:
    info = collect()
    if args.json:
        print_json(info)
        return
    for name, version in info["versions"].items():
        print(f"{name:<10} {version}")
    print(f"{'platform':<10} {info['platform']}")
    print(f"{'cpu':<10} {info['cpu']}")
    print(f"{'features':<10} {' '.join(info['cpu_features']) or 'none'}")
    print(f"{'threads':<10} {info['threads']}")
    why = "forced by FTBNN_ISA" if info["isa_forced"] else "best of " + ", ".join(info["isas"])
    print(f"{'isa':<10} {info['isa']} ({why})")
