"""`make wheels`: the sdist, and wheels made of it, checked and tried in clean environments; all into dist/.

Every CPU has wheels compiled by zig for glibc 2.17, which run nearly everywhere. This machine's CPU has others beside
them, compiled by its GCC, whose x86-64 kernels are faster: they ask for a newer glibc, and pip prefers them there.
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
OLDEST, NEWEST = 17, 36  # glibc 2.17, for which zig compiles, and that of Debian 12
ZIG = Path(ziglang.__file__).with_name("zig")
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


def zig_compiler(cpu: str) -> Path:
    """A program that compiles for this CPU and the oldest glibc."""
    program = WORK / f"zig-{cpu}" / "clang++"
    program.parent.mkdir(exist_ok=True)
    made_by = f"# zig {metadata.version('ziglang')}"  # which a cache that compares this program sees, too
    program.write_text(f'#!/bin/sh\n{made_by}\nexec {ZIG} c++ -target {cpu}-linux-gnu.2.{OLDEST} "$@"\n')
    program.chmod(0o755)
    return program


def build(source: Path, python: Interpreter, cpu: str, *, by_zig: bool) -> None:
    """A wheel into dist/, named by what auditwheel found."""
    kind = f"{python.version}-{cpu}-{'zig' if by_zig else 'gcc'}"
    env = {name: value for name, value in os.environ.items() if not name.startswith("CMAKE_")}
    settings = {"build-dir": f"build/{kind}"}
    if by_zig:
        settings |= {
            "cmake.define.CMAKE_TOOLCHAIN_FILE": ROOT / "wheels/zig.cmake",
            "cmake.define.FTBNN_ZIG": ZIG,
            "cmake.define.FTBNN_ZIG_CXX": zig_compiler(cpu),
            "cmake.define.FTBNN_CPU": cpu,
        }
    if shutil.which("ccache"):  # the kernels are the same in the wheels of all Pythons
        env["CCACHE_COMPILERCHECK"] = "content"
        settings["cmake.define.CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    if cpu != python.cpu:
        settings["cmake.define.Python_INCLUDE_DIR"] = headers(python.version, cpu, WORK)
        env |= {
            "_PYTHON_HOST_PLATFORM": f"linux-{cpu}",
            "SETUPTOOLS_EXT_SUFFIX": f".cpython-{python.version.replace('.', '')}-{cpu}-linux-gnu.so",
        }
    place, made = WORK / f"venv-{python.version}", WORK / f"made-{kind}"
    if not place.exists():
        run(*python.command, "-m", "venv", "--without-pip", place)
    shutil.rmtree(made, ignore_errors=True)
    words = [word for name, value in settings.items() for word in ("-C", f"{name}={value}")]
    pip("--python", place / "bin/python", "wheel", "--no-deps", "--wheel-dir", made, *words, source, env=env)
    (plain,) = made.glob("*.whl")
    if "abi3" in plain.name:
        run("abi3audit", "--strict", plain)
    repaired = made / "repaired"
    run("auditwheel", "repair", "--wheel-dir", repaired, plain)
    (wheel,) = repaired.glob("*.whl")
    shutil.copy(wheel, DIST)


def into(site: Path, python: Interpreter, glibc: int) -> list[object]:
    """What has pip install as it would for this Python on a Linux of this glibc, the newest first."""
    platforms = [f"manylinux_2_{minor}_{python.cpu}" for minor in range(glibc, OLDEST - 1, -1)]
    tags = [f"--platform={name}" for name in (*platforms, f"manylinux2014_{python.cpu}")]
    return ["install", "--target", site, "--python-version", python.version, "--only-binary", ":all:", *tags]


def tried(python: Interpreter, glibc: int) -> tuple[str, dict[str, object], Path]:
    """The wheel that pip takes for this Python, what the trial said, and where it is installed."""
    site = WORK / f"site-{python.version}-{python.cpu}-{glibc}"
    shutil.rmtree(site, ignore_errors=True)
    pip(*into(site, python, glibc), "--no-index", "--no-deps", "--find-links", DIST, "ftbnn")
    (ours,) = metadata.distributions(path=[str(site)])
    pip(*into(site, python, NEWEST), *(need for need in ours.requires or () if "extra" not in need))
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


def builders_for(cpu: str, machine: dict[str, Interpreter]) -> list[Interpreter]:
    """Pythons of this machine that build for a CPU: each that is older than the stable ABI, and one that has it. For
    another CPU it takes the headers of the same version, which Debian has of some.
    """
    suited = [machine[v] for v in VERSIONS if v in machine and (cpu == os.uname().machine or v in SUITES)]
    stable = [python for python in suited if python.version >= STABLE]
    if not stable:
        wanted = [v for v in SUITES if v >= STABLE]
        sys.exit(f"make wheels needs one of Python {', '.join(wanted)}, on the search path or of pyenv")
    return [*(python for python in suited if python.version < STABLE), stable[0]]


def main() -> None:
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the tools'
    provide()
    WORK.mkdir(parents=True, exist_ok=True)
    for old in DIST.glob("ftbnn-*"):
        old.unlink()
    machine = here()
    builders = {cpu: builders_for(cpu, machine) for cpu in DEBIAN}
    print("== fetching Debian's Pythons", flush=True)
    fetched = {(v, cpu): debian(v, cpu, WORK) for cpu in DEBIAN for v in SUITES}
    print("== the sdist", flush=True)
    source = unpacked_sdist()
    for cpu, by_zig in ((os.uname().machine, False), *((cpu, True) for cpu in sorted(DEBIAN))):
        for python in builders[cpu]:
            print(f"== building for {cpu} by Python {python.version} and {'zig' if by_zig else 'GCC'}", flush=True)
            build(source, python, cpu, by_zig=by_zig)
    print(f"== trying\n{'python':9} {'of':22} {'ISA':9} wheel", flush=True)
    bits, sites = [], {}
    for cpu in DEBIAN:
        for version in VERSIONS:
            python = (machine if cpu == os.uname().machine else {}).get(version, fetched.get((version, cpu)))
            if python is None:
                print(f"{version:9} {f'none for {cpu}: not tried':22}", flush=True)
                continue
            for glibc in sorted({NEWEST, OLDEST if python in builders[cpu] else NEWEST}):
                wheel, said, sites[python, glibc] = tried(python, glibc)
                bits.append(said["bits"])
                print(f"{said['python']:9} {python.origin:22} {said['isa']:9} {wheel}", flush=True)
    assert all(found == bits[0] for found in bits), bits
    print("all give the same bits for the zoo, portably")
    own = machine[f"3.{sys.version_info[1]}"]
    print(f"trained by the wheel for Python {own.version}: {try_training(sites[own, NEWEST])}")
    for path in sorted(DIST.glob("ftbnn-*")):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")


if __name__ == "__main__":
    main()
