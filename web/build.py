"""Puts the page together: the engine as WebAssembly, the package for JavaScript, the page, and if npm is there the
engine to race against. Written to src/ftbnn/page/static, where `ftbnn demo` finds it, and web/package/*.wasm.

    python web/build.py            (what `make web` does)
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
ROOT = WEB.parent
STATIC = ROOT / "src/ftbnn/page/static"
MODULES = {"ftbnn.wasm": "OFF", "ftbnn-relaxed.wasm": "ON"}  # name, FTBNN_RELAXED
PACKAGES = "clang-16 lld-16 wasi-libc libc++-16-dev-wasm32 libclang-rt-16-dev-wasm32".split()
ORT = ["ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"]


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def require(what: str, is_there: bool, packages: list[str]) -> None:
    """As root on Debian it is installed; elsewhere it is said what to install."""
    if is_there:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(f"{what} is not there; on Debian: sudo {' '.join(command)}")
    print(f"== installing {what}", flush=True)
    run("apt-get", "update")
    run(*command)


def has_compiler() -> bool:
    return bool(shutil.which("clang++-16")) and Path("/usr/lib/llvm-16/lib/wasm32-wasi/libc++.a").exists()


def build_modules() -> None:
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or "cmake"
    for name, relaxed in MODULES.items():
        folder = ROOT / "build" / f"wasm-{Path(name).stem}"
        toolchain = ROOT / "native/wasm/toolchain.cmake"
        run(cmake, "-S", ROOT, "-B", folder, "--toolchain", toolchain, f"-DFTBNN_RELAXED={relaxed}")
        run(cmake, "--build", folder, "--parallel", "2")
        shutil.copyfile(folder / "ftbnn.wasm", WEB / "package" / name)
    shutil.copyfile(ROOT / "LICENSE", WEB / "package/LICENSE")


def assemble() -> None:
    shutil.rmtree(STATIC, ignore_errors=True)
    shutil.copytree(WEB / "page", STATIC)
    (STATIC / "ftbnn").mkdir()
    for path in [*(WEB / "package").glob("*.js"), *(WEB / "package").glob("*.wasm")]:
        shutil.copy(path, STATIC / "ftbnn")
    files = [str(path.relative_to(STATIC)) for path in sorted(STATIC.rglob("*")) if path.is_file()]
    (STATIC / "files.json").write_text(json.dumps([".", *files]))


def add_floats() -> None:
    """ONNX Runtime Web is 14 MB: fetched, not kept in the repository."""
    if not shutil.which("npm"):
        print("npm is not there: the page comes without its race against floats (ONNX Runtime Web)")
        return
    package = WEB / "node_modules/onnxruntime-web"
    if not package.exists():
        print("== fetching ONNX Runtime Web and what tests need")
        run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=WEB)
    (STATIC / "vendor").mkdir()
    for name in ORT:
        shutil.copy(package / "dist" / name, STATIC / "vendor")
    version = json.loads((package / "package.json").read_text())["version"]
    (STATIC / "vendor/ort.json").write_text(json.dumps({"version": version}))


if __name__ == "__main__":
    require("the WebAssembly compiler", has_compiler(), PACKAGES)
    build_modules()
    assemble()
    add_floats()
    print(f"{sum(1 for _ in STATIC.rglob('*'))} files in {STATIC.relative_to(ROOT)}; look at it: ftbnn demo --serve")
