"""Pythons: those of this machine, which build wheels, and Debian's for any CPU, unpacked into folders, which try them.

apt-get fetches Debian's with a configuration of its own, for a machine on which nothing is installed yet: it changes
nothing here, and needs no root.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}  # of Debian, with the Python each has
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
CONFIGURATION = """\
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "{folder}";
Dir::State::Lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}";
Dir::Cache::archives "{folder}/archives";
Dir::Etc::SourceList "{folder}/sources.list";
Dir::Etc::SourceParts "-";
"""


@dataclass(frozen=True)
class Interpreter:
    version: str
    cpu: str
    command: tuple[str, ...]
    origin: str


def here() -> dict[str, Interpreter]:
    """Of the search path and of pyenv, by version."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        places = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python{version}"))]
        for place in filter(None, places):
            asked = subprocess.run([place, "-c", "import ensurepip"], capture_output=True, check=False)
            if asked.returncode == 0:  # a shim of pyenv may stand for a version that is not in use
                found[version] = Interpreter(version, os.uname().machine, (str(place),), "of this machine")
                break
    return found


def debian(version: str, cpu: str, folder: Path) -> Interpreter:
    """Debian's Python for a CPU, with the C library it was made for."""
    root = folder / f"{SUITES[version]}-{cpu}"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        _unpack(SUITES[version], DEBIAN[cpu], root, [f"python{version}", "libstdc++6"], [f"libpython{version}-dev"])
        # In place of one that includes this by a search path of Debian's compilers.
        shutil.copy(root / f"usr/include/{cpu}-linux-gnu/python{version}/pyconfig.h", headers(version, cpu, folder))
        (root / "complete").touch()
    python, libraries = str(root / f"usr/bin/python{version}"), root / f"usr/lib/{cpu}-linux-gnu"
    if cpu == os.uname().machine:
        loader = next(libraries.glob("ld-linux-*.so.*"))
        command = (str(loader), "--library-path", str(libraries), python)
        return Interpreter(version, cpu, command, f"Debian {SUITES[version]}")
    return Interpreter(version, cpu, (f"qemu-{cpu}", "-L", str(root), python), f"Debian {SUITES[version]}, qemu")


def headers(version: str, cpu: str, folder: Path) -> Path:
    """Where the Python.h of an unpacked Python is."""
    return folder / f"{SUITES[version]}-{cpu}" / "usr/include" / f"python{version}"


def _mirror() -> str:
    """Where this machine's apt-get has Debian from."""
    asked = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)"], check=True, capture_output=True, text=True
    )
    found = [site for site in asked.stdout.split() if site.rstrip("/").endswith("/debian")]
    if not found:
        raise SystemExit(
            "apt-get knows no Debian here: other CPUs' Pythons come from there (see /etc/apt/sources.list.d)"
        )
    return found[0]


def _unpack(suite: str, architecture: str, root: Path, whole: list[str], alone: list[str]) -> None:
    """Packages with all that they need, and others without."""
    apt = root / "apt"
    for name in ("lists/partial", "archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "status").touch()
    (apt / "sources.list").write_text(f"deb {_mirror()} {suite} main\n")
    (apt / "apt.conf").write_text(CONFIGURATION.format(architecture=architecture, folder=apt.resolve()))

    def get(*words: str) -> None:
        told = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
        subprocess.run(["apt-get", "-qq", *words], check=True, env=told, cwd=apt / "archives")

    get("update")
    get("install", "--download-only", "--no-install-recommends", "-y", *whole)
    get("download", *alone)
    for name in ("bin", "lib", "lib64", "sbin"):  # as on every Debian of today
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in sorted((apt / "archives").glob("*.deb")):
        files = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", root], check=True, input=files)
    shutil.rmtree(apt)
