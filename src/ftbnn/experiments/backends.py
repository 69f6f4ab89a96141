"""Do two backends learn the same? Some seeds each of one network, and the accuracies side by side.

    python -m ftbnn.experiments.backends ftbnn18 --data mnist --data-dir DIR --width 8 --epochs 3 --out report

Writes backends.json (every epoch of every run) and backends.png. The runs stay in OUT/runs; one that is there goes on.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any, get_args

from ftbnn.drawing import canvas
from ftbnn.files import write_atomically
from ftbnn.nn.bconv import Backend
from ftbnn.training.named import plan, train
from ftbnn.training.record import read


def compare(
    model: str,
    data: str,
    out: Path,
    *,
    backends: tuple[str, str] = ("torch", "native"),
    data_dir: Path | None = None,
    width: int | None = None,
    seeds: int = 3,
    settings: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Trains `seeds` runs with each backend; the last epochs' mean accuracies, their spread and their difference."""
    runs = []
    for seed in range(seeds):
        for backend in backends:
            path = out / "runs" / f"{backend}-{seed}"
            job = plan(
                model,
                data,
                data_dir=data_dir,
                width=width,
                settings={**(settings or {}), "backend": backend},
                out=path,
            )
            train(job, seed=seed, resume=(path / "recipe.json").exists())
            rows = [row for row in read(path / "metrics.jsonl") if row["kind"] == "epoch"]
            kept = ("val_top1", "val_loss", "train_loss", "images_per_s")
            run: dict[str, Any] = {key: [row[key] for row in rows] for key in kept}
            runs.append({"backend": backend, "seed": seed, **run})
    ends = {name: [run["val_top1"][-1] for run in runs if run["backend"] == name] for name in backends}
    first, second = (statistics.mean(ends[name]) for name in backends)
    noise = max(statistics.stdev(values) for values in ends.values()) if seeds > 1 else None
    environment = json.loads((out / "runs" / f"{backends[1]}-0" / "run.json").read_text())["environment"]
    report = {
        "model": model,
        "width": width,
        "data": data,
        "settings": settings or {},
        "environment": {key: value for key, value in environment.items() if key != "command"},  # it has paths
        "last_top1": ends,
        "difference": second - first,
        "seed_noise": noise,  # the larger standard deviation of the two
        "runs": runs,
    }
    write_atomically(out / "backends.json", (json.dumps(report, indent=2) + "\n").encode())
    draw(report, out / "backends.png")
    return report


def draw(report: dict[str, Any], path: Path) -> None:
    """Test accuracy over the epochs, a line per run."""
    with canvas(path, size=(6, 4)) as axes:
        for number, backend in enumerate(report["last_top1"]):
            for run in (run for run in report["runs"] if run["backend"] == backend):
                epochs = range(1, len(run["val_top1"]) + 1)
                label = backend if run["seed"] == 0 else None
                axes.plot(epochs, run["val_top1"], color=f"C{number}", linestyle=("-", "--")[number], label=label)
        axes.set(xlabel="epoch", ylabel="test top-1, %", title=f"{report['model']} on {report['data']}: two backends")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ftbnn.experiments.backends", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--width", type=int)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--backends", nargs=2, choices=get_args(Backend), default=("torch", "native"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    settings = {"epochs": str(args.epochs)}
    first, second = args.backends
    report = compare(
        args.model,
        args.data,
        args.out,
        backends=(first, second),
        data_dir=args.data_dir,
        width=args.width,
        seeds=args.seeds,
        settings=settings,
    )
    for backend, values in report["last_top1"].items():
        print(f"{backend:<7} {', '.join(f'{value:.2f}' for value in values)} %")
    noise = "" if report["seed_noise"] is None else f", seed noise {report['seed_noise']:.2f}"
    print(f"{second} - {first}: {report['difference']:+.2f}{noise}")


if __name__ == "__main__":
    main()
