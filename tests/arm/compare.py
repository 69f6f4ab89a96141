"""Networks on other architectures give the bits that they give here: portable those of portable, wherever; neon and
dotprod, which fuse, those of avx2, as both sum in the same order.

A stem whose weights are integers is multiplied as such or in floats, by the CPU's features: where only one of two
machines does so, that network is not compared.
"""

import subprocess
import sys
from pathlib import Path

from machines import A53, A76, ARMV7, BUILD, MAX, RISCV64, ZOO

from ftbnn import _native

IMAGES = 2
STEM_BITS = {"bireal18": 8, "ftbnn-d18-g1-v2": 16, "imagenette-stem8": 8}
RUNS = [
    (A53, "portable"),
    (A53, "neon"),
    (A76, "dotprod"),
    (MAX, "dotprod"),
    (ARMV7, "portable"),
    (RISCV64, "portable"),
]


def small_networks() -> list[Path]:
    """Every operator and all versions of files, in small."""
    folder = BUILD / "files"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "tests/damage_files.py", str(folder)], check=True)
    return sorted(folder.glob("*.ftbnn"))


def main() -> None:
    known = _native.capabilities()
    has_fused, has_dots = "avx2" in known["isas"], "avx_vnni" in known["features"]
    compared = 0
    for file in [*ZOO, *small_networks()]:
        for machine, isa in RUNS:
            if isa != "portable":
                bits = STEM_BITS.get(file.stem)
                if not has_fused or (bits and has_dots != (isa == "dotprod" and bits == 8)):
                    continue
            machine.check(file, IMAGES, isa, "portable" if isa == "portable" else "avx2")
            compared += 1
    print(f"{compared} times the same bits" + ("" if has_fused else "; no AVX2 here, so neon was not compared"))


if __name__ == "__main__":
    main()
