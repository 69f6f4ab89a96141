"""The machine and the software on it: what a result may depend on beside its recipe."""

import platform
import subprocess
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("ftbnn", "numpy", "pillow", "torch")


def cores() -> int:
    """Cores that this process may use: of its affinity, and of a container's quota if there is one."""
    from ftbnn import _native

    return _native.cores()


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """Of Python and of packages, read from their metadata: nothing is imported for it."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def capabilities() -> dict[str, Any]:
    """What the compiled extension says of the CPU, its ISAs and the kernels in use."""
    from ftbnn import _native

    found: dict[str, Any] = _native.capabilities()
    return found


def engine_checksum() -> str:
    """Of the compiled extension: kernels may change within a version."""
    from ftbnn import _native

    return f"{zlib.crc32(Path(_native.__file__).read_bytes()):08x}"


def describe(packages: tuple[str, ...] = PACKAGES) -> dict[str, Any]:
    """Versions, platform, CPU and the ISA in use."""
    known = capabilities()
    facts = {"versions": versions(packages), "platform": platform.platform(), "cores": cores()}
    return facts | {key: known[key] for key in ("cpu", "features", "isas", "isa")}


def commit() -> str | None:
    """The commit of the sources that run, with `+` if they were changed; None outside a checkout."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", str(here))
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
