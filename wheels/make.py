"""`make wheels`: the sdist, and wheels made of it, checked and tried in clean environments; all into dist/.

x86-64 is compiled by this machine's compiler, because GCC makes the faster kernels there: a wheel then asks for the C
library that GCC's runtime asks for, and auditwheel finds out which. aarch64 is compiled by zig for glibc 2.17.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from importlib import metadata
from pathlib import Path

import ziglang
from interpreters import DEBIAN, SUITES, VERSIONS, Interpreter, debian, headers, here

ROOT = Path(__file__).parents[1]
WORK, DIST = ROOT / "build/wheels", ROOT / "dist"
TARGET = "aarch64-linux-gnu.2.17"
STABLE = "3.12"  # from this version on, one wheel serves all
NEEDED = {"apt-get": "apt", "dpkg-deb": "dpkg", "g++": "g++", "qemu-aarch64": "qemu-user"}


def run(*words: object, **settings: object) -> str:
    """A command, whose output is shown only if it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **settings)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\n{' '.join(map(str, words))} ended with {done.returncode}")
    return done.stdout


def pip(*words: object, **settings: object) -> str:
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words, **settings)


def provide() -> None:
    """Installs what is missing, where that can be done."""
    missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(f"make wheels needs a Debian with {' '.join(missing)}: apt-get install {' '.join(missing)}")
    print(f"== installing {' '.join(missing)}", flush=True)
    run("apt-get", "update")
    run("apt-get", "install", "-y", "--no-install-recommends", *missing)


def unpacked_sdist() -> Path:
    """dist/ftbnn-VERSION.tar.gz, and where it was unpacked: wheels are made of what it holds."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT)
    (archive,) = DIST.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(WORK, filter="data")
    return WORK / archive.name.removesuffix(".tar.gz")


def build(source: Path, python: Interpreter, cpu: str) -> Path:
    """A wheel in dist/, named by what auditwheel found."""
    native = cpu == python.cpu
    env = {name: value for name, value in os.environ.items() if not name.startswith("CMAKE_")}
    settings = {"build-dir": f"build/{python.version}-{cpu}"}
    if native:
        # libgcc_s may stay: every Linux has it, and that of GCC 12 and newer asks for glibc 2.35 if it is linked in.
        settings["cmake.define.CMAKE_MODULE_LINKER_FLAGS"] = "-static-libstdc++"
        if shutil.which("ccache"):
            settings["cmake.define.CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    else:
        of = python.version if python.version in SUITES else min(v for v in SUITES if v >= STABLE)
        env |= {
            "_PYTHON_HOST_PLATFORM": f"linux-{cpu}",
            "SETUPTOOLS_EXT_SUFFIX": f".cpython-{python.version.replace('.', '')}-{cpu}-linux-gnu.so",
        }
        settings |= {
            "cmake.define.CMAKE_TOOLCHAIN_FILE": ROOT / "wheels/zig.cmake",
            "cmake.define.FTBNN_ZIG": Path(ziglang.__file__).with_name("zig"),
            "cmake.define.FTBNN_TARGET": TARGET,
            "cmake.define.Python_INCLUDE_DIR": headers(of, cpu, WORK),
        }
    place, made = WORK / f"venv-{python.version}", WORK / f"made-{python.version}-{cpu}"
    if not place.exists():
        run(*python.command, "-m", "venv", "--without-pip", place)
    shutil.rmtree(made, ignore_errors=True)
    words = [word for name, value in settings.items() for word in ("-C", f"{name}={value}")]
    pip("--python", place / "bin/python", "wheel", "--no-deps", "--wheel-dir", made, *words, source, env=env)
    (plain,) = made.glob("*.whl")
    if "abi3" in plain.name:
        run(Path(sys.executable).with_name("abi3audit"), "--strict", plain)
    repaired = made / "repaired"
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", repaired, plain)
    (wheel,) = repaired.glob("*.whl")
    return Path(shutil.copy(wheel, DIST))


def tags(version: str, cpu: str) -> list[str]:
    """What pip takes on such a Python of a Linux as new as the wheels ask for."""
    platforms = [f"manylinux_2_{minor}_{cpu}" for minor in range(17, 37)] + [f"manylinux2014_{cpu}"]
    return ["--python-version", version, "--only-binary", ":all:", *(f"--platform={name}" for name in platforms)]


def tried(python: Interpreter) -> tuple[str, dict[str, object], Path]:
    """The wheel that pip takes for this Python, what the trial said, and where it is installed."""
    site = WORK / f"site-{python.version}-{python.cpu}"
    shutil.rmtree(site, ignore_errors=True)
    into = ["install", "--target", site, *tags(python.version, python.cpu)]
    pip(*into, "--no-index", "--no-deps", "--find-links", DIST, "ftbnn")
    (ours,) = metadata.distributions(path=[str(site)])
    pip(*into, *(need for need in ours.requires or () if "extra" not in need))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site)}  # -S: nothing else that this Python has
    said = run(*python.command, "-S", ROOT / "wheels/trial.py", WORK, env=env)
    tag = ours.read_text("WHEEL").partition("\nTag: ")[2].split("\n")[0]
    return tag, json.loads(said), site


def try_training(site: Path) -> str:
    """The train extra is taken from the checkout's .venv, and ftbnn from the wheel."""
    extra = next((ROOT / ".venv/lib").glob("python3.*/site-packages"))
    folder = WORK / "training"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    env = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{extra}"}
    said = run(ROOT / ".venv/bin/python", "-S", ROOT / "wheels/training_trial.py", folder, env=env)
    return said.strip().splitlines()[-1]


def main() -> None:
    provide()
    WORK.mkdir(parents=True, exist_ok=True)
    for old in DIST.glob("ftbnn-*"):
        old.unlink()
    machine = here()
    builders = {v: machine[v] for v in VERSIONS if v in machine and v < STABLE}
    builders |= {v: machine[v] for v in [v for v in VERSIONS if v in machine and v >= STABLE][:1]}
    if max(builders, default="") < STABLE:
        sys.exit(f"make wheels needs a Python {STABLE} or newer, which makes the wheel for all of them")
    print("== fetching Debian's Pythons", flush=True)
    fetched = {(v, cpu): debian(v, cpu, WORK) for cpu in DEBIAN for v in SUITES}
    print("== the sdist", flush=True)
    source = unpacked_sdist()
    for cpu in DEBIAN:
        for version, python in builders.items():
            if cpu != python.cpu and version < STABLE and version not in SUITES:
                print(f"-- no {cpu} Python {version} to be had: its users build the sdist", flush=True)
                continue
            print(f"== building for {cpu} by Python {version}", flush=True)
            build(source, python, cpu)
    print(f"{'python':10} {'CPU':8} {'ISA':8} {'of':24} wheel", flush=True)
    bits, sites = {}, {}
    for cpu in DEBIAN:
        for version in VERSIONS:
            python = machine.get(version) if cpu == os.uname().machine else None
            python = python or fetched.get((version, cpu))
            if python is None:
                print(f"{version:10} {cpu:8} {'':8} could not be had, not tried", flush=True)
                continue
            wheel, said, sites[version, cpu] = tried(python)
            bits[version, cpu] = said["bits"]
            print(f"{said['python']:10} {cpu:8} {said['isa']:8} {python.origin:24} {wheel}", flush=True)
    assert all(found == next(iter(bits.values())) for found in bits.values()), bits
    print("all give the same bits for the zoo, portably")
    own = f"3.{sys.version_info[1]}"
    print(f"training by the wheel for Python {own}: {try_training(sites[own, os.uname().machine])}")
    for path in sorted(DIST.glob("ftbnn-*")):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")


if __name__ == "__main__":
    main()
