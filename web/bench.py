"""The engine in Chromium beside the same engine native, and beside ONNX Runtime Web with a float ResNet-18 of the same
width: all on one thread, in turns, in one run.

    python web/bench.py [--networks cifar10] [--report benchmarks/reports/DATE-web]
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ftbnn.bench.peers.resnet18 import ResNet18
from ftbnn.bench.subject import open_subject
from ftbnn.machine import capabilities
from ftbnn.runtime import Model, load
from ftbnn.text import table
from ftbnn.zoo import card, resolve

WEB = Path(__file__).resolve().parent
BROWSER = {"relaxed": "wasm, relaxed SIMD", "simd128": "wasm, SIMD128", "portable": "wasm, scalar"}
NATIVE = "native, AVX2"
FLOAT = "ONNX Runtime Web, fp32 ResNet-18"


def native_ms(model: Model, image: NDArray[np.uint8]) -> float:
    """The median of pieces of 20 ms, as in the browser."""
    pieces = []
    for _ in range(15):
        start, calls = time.perf_counter(), 0
        while time.perf_counter() - start < 0.02:
            model(image)
            calls += 1
        pieces.append(1e3 * (time.perf_counter() - start) / calls)
    return statistics.median(pieces)


def measure(names: list[str], rounds: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        models = {}
        for name in names:
            shutil.copy(resolve(f"zoo:{name}"), folder)
            subject = open_subject(f"zoo:{name}", folder, image_size=None, width=card(name)["width"])
            shutil.move(ResNet18(subject, folder).fp32, folder / f"{name}.onnx")
            models[name] = load(f"zoo:{name}", threads=1, isa="avx2")
        browser = subprocess.Popen(
            ["node", WEB / "bench_browser.js", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert browser.stdin is not None
        assert browser.stdout is not None
        version = browser.stdout.readline().strip()
        times: dict[str, dict[str, list[float]]] = {}
        for _ in range(rounds):
            for name, model in models.items():
                found = times.setdefault(name, {})
                channels, height, width = model.input_shape
                image = np.random.default_rng(0).integers(0, 256, (1, height, width, channels), np.uint8)
                found.setdefault(NATIVE, []).append(native_ms(model, image))
                for key, label in {**BROWSER, "onnx": FLOAT}.items():
                    print(name, key, file=browser.stdin, flush=True)
                    found.setdefault(label, []).append(float(browser.stdout.readline()))
        browser.stdin.close()
        browser.wait()
    return {"browser": version, "rounds": rounds, "ms": times}


def shown(found: dict[str, object]) -> str:
    rows = []
    for name, times in found["ms"].items():  # type: ignore[attr-defined]
        base = statistics.median(times[NATIVE])
        for label, values in times.items():
            ratios = [value / own for value, own in zip(values, times[NATIVE], strict=True)]
            median = statistics.median(values)
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            rows.append([name, label, f"{median:.3f}", f"{median / base:.2f}", spread])
    return table(["network", "engine", "ms an image", "x native", "in each round"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", nargs="+", default=["cifar10"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    found = measure(args.networks, args.rounds)
    text = shown(found)
    print(text)
    if args.report is not None:
        args.report.mkdir(parents=True, exist_ok=True)
        (args.report / "web.json").write_text(json.dumps(found, indent=1) + "\n")
        command = f"python web/bench.py --networks {' '.join(args.networks)} --rounds {args.rounds}"
        (args.report / "README.md").write_text(
            f"# The engine in a browser, {date.today()}\n\nMachine: {capabilities()['cpu']}, one thread; headless "
            f"{found['browser']}.\n\n`{command} --report {args.report}`\n\n```\n{text}\n```\n\n"
            f"Medians of {args.rounds} rounds, in each of which every engine had its turn. "
            "The float network has random weights.\n"
        )
