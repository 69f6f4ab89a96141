"""Programs of other architectures, run by qemu, and of another system, run by Wine. `prepare.sh` has built the former,
`systems.py` the latter."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ftbnn.runtime import load

BUILD = Path("build/arm")
ZOO = sorted(Path("src/ftbnn/zoo").glob("*.ftbnn"))


@dataclass(frozen=True)
class Machine:
    name: str  # of its folder
    emulator: tuple[str, ...]
    program: str = "answers"
    threads: int = 1

    def answers(self, file: Path, images: int, isa: str, *, counted: bool = False) -> tuple[list[list[str]], int]:
        """Scores of the first images as the bits of floats, and if counted the instructions of all that."""
        given = ["-plugin", str(BUILD / "count.so")] if counted else []
        command = [*self.emulator, *given, str(BUILD / self.name / self.program)]
        done = subprocess.run(
            [*command, str(file), str(raw_images(file)), str(images), str(self.threads)],
            env=os.environ | {"FTBNN_ISA": isa, "LD_LIBRARY_PATH": str(BUILD / self.name)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}, {isa}, {file}: ended with {done.returncode}: {done.stderr}")
        used, *lines = done.stdout.splitlines()
        assert used == isa
        count = re.search(r"instructions (\d+)", done.stderr)
        return [line.split() for line in lines], int(count[1]) if count else 0

    def check(self, file: Path, images: int, isa: str, isa_here: str) -> None:
        """The bits that it gives are those of this machine."""
        (there, _), here = self.answers(file, images, isa), answers_here(file, images, isa_here)
        if there != here:
            raise SystemExit(f"{file.stem}: {' '.join(self.emulator)}, {isa}, gives other bits:\n{there}\n{here}")


def _qemu(name: str, cpu: str, triple: str) -> Machine:
    return Machine(name, (f"qemu-{name.removesuffix('v7')}", "-cpu", cpu, "-L", f"/usr/{triple}"))


A53, A76, MAX = (_qemu("aarch64", cpu, "aarch64-linux-gnu") for cpu in ("cortex-a53", "cortex-a76", "max"))
ARMV7 = _qemu("armv7", "max", "arm-linux-gnueabihf")
RISCV64 = _qemu("riscv64", "rv64", "riscv64-linux-gnu")


def raw_images(file: Path, count: int = 3) -> Path:
    """Random 8-bit images of a network's size."""
    path = BUILD / "images" / f"{file.stem}.raw"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        channels, height, width = load(file, threads=1).input_shape
        np.random.default_rng(0).integers(0, 256, (count, height, width, channels), np.uint8).tofile(path)
    return path


def answers_here(file: Path, images: int, isa: str) -> list[list[str]]:
    """The same on this machine."""
    model = load(file, threads=1, isa=isa)
    channels, height, width = model.input_shape
    pixels = np.fromfile(raw_images(file), np.uint8).reshape(-1, height, width, channels)[:images]
    return [[f"{bits:08x}" for bits in row] for row in model(pixels).view(np.uint32)]
