"""The C library on other systems: for Windows compiled by MinGW and run by Wine, where every ISA of this CPU must give
the bits that it gives here (what trains is compiled only); for macOS compiled and linked by zig, and not run.

Tools are installed where that is possible (root on Debian), else it says which are missing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from compare import IMAGES, small_networks
from machines import BUILD, ZOO, Machine

from ftbnn import _native

MINGW, WINE = "x86_64-w64-mingw32", Path("/usr/lib/wine/wine64")
PACKAGES = ["g++-mingw-w64-x86-64-posix", "wine64"]
CMAKE = Path(sys.executable).with_name("cmake")


def run(*command: str | Path, **settings: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **settings)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def provide() -> None:
    if shutil.which(f"{MINGW}-g++-posix") and WINE.exists():
        return
    install = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(f"other systems need a compiler for Windows and Wine; on Debian, as root: {' '.join(install)}")
    print(f"== installing {' '.join(PACKAGES)}", flush=True)
    run("apt-get", "update")
    run(*install)


def build(folder: Path, system: str, processor: str, compiler: str, *words: str, targets: tuple[str, ...]) -> None:
    """Without a warning."""
    settings = {
        "CMAKE_SYSTEM_NAME": system,
        "CMAKE_SYSTEM_PROCESSOR": processor,
        "CMAKE_C_COMPILER": compiler.replace("++", "cc", 1),
        "CMAKE_CXX_COMPILER": compiler,
        "CMAKE_COMPILE_WARNING_AS_ERROR": "ON",
        "FTBNN_C": "ON",
    }
    run(CMAKE, "-S", ".", "-B", folder, *(f"-D{name}={value}" for name, value in settings.items()), *words)
    run(CMAKE, "--build", folder, "--parallel", "2", "--target", *targets)


def windows() -> None:
    folder = BUILD / "windows"
    build(folder, "Windows", "x86_64", f"{MINGW}-g++-posix", targets=("all", "ftbnn_training"))
    given = ["-O1", "-Wall", "-Wextra", "-Werror", "-Inative/include", "native/tests/arm/answers.c"]
    run(f"{MINGW}-gcc-posix", *given, f"-L{folder}", "-lftbnn", "-o", folder / "answers.exe")
    os.environ |= {"WINEPREFIX": str((BUILD / "wine").resolve()), "WINEDEBUG": "-all"}
    machine = Machine("windows", (str(WINE),), "answers.exe", threads=2)
    compared = 0
    for file in [*ZOO, *small_networks()]:
        for isa in _native.capabilities()["isas"]:
            machine.check(file, IMAGES, isa, isa)
            compared += 1
    print(f"Windows (Wine): {compared} times the same bits")


def macos() -> None:
    home = BUILD / "zig"
    if not home.exists():
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run(*pip, "install", "--target", home, "ziglang")
    zig = (home / "ziglang/zig").resolve()
    folder = BUILD / "macos-arm64"
    folder.mkdir(exist_ok=True)
    for program, verb in (("zig++", "c++"), ("zigcc", "cc")):
        (folder / program).write_text(f'#!/bin/sh\nexec {zig} {verb} -target aarch64-macos "$@"\n')
        (folder / program).chmod(0o755)
    words = [
        f"-DCMAKE_CXX_ARCHIVE_CREATE={zig} ar qc <TARGET> <OBJECTS>",
        f"-DCMAKE_CXX_ARCHIVE_FINISH={zig} ranlib <TARGET>",
        "-DCMAKE_INSTALL_NAME_TOOL=true",  # nothing is installed
    ]
    build(folder, "Darwin", "arm64", str((folder / "zig++").resolve()), *words, targets=("all",))
    print("macOS (arm64): compiled and linked, not run")


if __name__ == "__main__":
    provide()
    BUILD.mkdir(parents=True, exist_ok=True)
    windows()
    macos()
