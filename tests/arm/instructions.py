"""Instructions an image on aarch64, by ISA: exact and repeatable, whatever runs beside. They are no times.

    python tests/arm/instructions.py             says them, and fails where neon takes more than it may
    python tests/arm/instructions.py --report    writes benchmarks/reports/DATE-aarch64-instructions

One image more is run under a plugin of qemu that counts; the difference is what an image takes, loading left out.
"""

import argparse
import json
from datetime import date
from pathlib import Path

import torch
from machines import BUILD, MAX, ZOO

from ftbnn.bench.subject import enliven
from ftbnn.models import build
from ftbnn.packing import pack
from ftbnn.text import table

ISAS = ["portable", "neon", "dotprod"]
MOST = {"cifar10": 0.35, "imagenette": 0.35}  # of portable's instructions, that neon may take


def with_integer_stem() -> Path:
    """The network of `imagenette`, untrained, with a stem of 8 bits."""
    path = BUILD / "files" / "imagenette-stem8.ftbnn"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        network = enliven(build("ftbnn18", classes=10, stem="imagenet", stem_bits=8))
        pack(network, torch.zeros(1, 3, 128, 128), path)
    return path


def millions(file: Path, isa: str) -> float:
    counts = [MAX.answers(file, images, isa, counted=True)[1] for images in (1, 2)]
    return (counts[1] - counts[0]) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    found = {file.stem: {isa: round(millions(file, isa), 3) for isa in ISAS} for file in [*ZOO, with_integer_stem()]}
    rows = [
        (name, *(f"{counts[isa]:.1f}" for isa in ISAS), f"{counts['neon'] / counts['portable']:.3f}")
        for name, counts in found.items()
    ]
    headings = ("network", *(f"{isa}, M" for isa in ISAS), "neon / portable")
    print(table(headings, rows))
    for name, most in MOST.items():
        if found[name]["neon"] > most * found[name]["portable"]:
            raise SystemExit(f"{name}: neon takes more than {most} of portable's instructions")
    if asked.report:
        write(headings, rows, found)


INTRODUCTION = """# Instructions an image on aarch64

Counted by `make bench-arm` with a plugin of qemu-user, one thread, 8-bit images: millions of instructions, no times. No
ARM machine was at hand; how fast a core executes them is another question. `imagenette-stem8` is imagenette's network,
untrained, with a stem of 8 bits, which dotprod multiplies in integers.
"""


def write(headings: tuple[str, ...], rows: list[tuple[str, ...]], found: dict[str, dict[str, float]]) -> None:
    folder = Path(f"benchmarks/reports/{date.today()}-aarch64-instructions")
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["| " + " | ".join(line) + " |" for line in (headings, ["---"] * len(headings), *rows)]
    (folder / "README.md").write_text("\n".join([INTRODUCTION, *lines, ""]))
    (folder / "instructions.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {folder}")


if __name__ == "__main__":
    main()
