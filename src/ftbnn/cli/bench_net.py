"""bench net: whole networks in our engine beside ONNX Runtime, OpenVINO and PyTorch."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ftbnn.cli.output import print_json, require_torch, size, table
from ftbnn.errors import UserError


def numbers(text: str) -> list[int]:
    """`1,2` as a list."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers like 1,2") from None


def names(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="+", metavar="NAME|FILE", help="a model's name, a run directory or a .ftbnn file"
    )
    parser.add_argument("--threads", type=numbers, default=[1], metavar="N,...", help="default: 1")
    parser.add_argument("--batch", type=numbers, default=[1], metavar="N,...", help="default: 1")
    parser.add_argument(
        "--peers",
        type=names,
        default=["onnxruntime", "openvino", "torch"],
        metavar="P,...",
        help="default: onnxruntime,openvino,torch; '' for none",
    )
    parser.add_argument(
        "--isa", type=names, default=[], metavar="I,...", help="ISAs of our engine (default: the one in use)"
    )
    parser.add_argument("--image-size", type=int, help="side of the input in pixels (default: the model's, mostly 224)")
    parser.add_argument("--width", type=int, help="channels of the first stage (default: the model's)")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each contender")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw milliseconds per image")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write JSON, picture and README.md there")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn bench net")
    if args.plot and not args.plot.parent.is_dir():
        raise UserError(f"cannot write {args.plot}: {args.plot.parent} is not a directory")
    from ftbnn.bench.onednn import protect

    limit = protect()  # before PyTorch is imported
    from ftbnn.bench import picture, report
    from ftbnn.bench.net import Comparison, compare

    if args.report:
        report.create(args.report)
    what = Comparison(
        args.models, args.threads, args.batch, args.peers, args.isa, args.image_size, args.width, args.rounds
    )
    rows, summary = compare(what, lambda text: print(text, file=sys.stderr, flush=True))
    lines = [line for name, facts in summary.items() for line in sentences(name, facts)]
    if limit:
        lines.append(f"PyTorch and OpenVINO were held to ONEDNN_MAX_CPU_ISA={limit}: this machine hides its AMX tiles.")
    if args.plot:
        picture.draw(rows, args.plot, report.machine()["cpu"])
    if args.report:
        report.write(args.report, "net", rows, lines, picture=True)
    if args.json:
        print_json(rows)
    else:
        print(show(rows))
    print("\n".join(lines), file=sys.stderr if args.json else sys.stdout)


def show(rows: list[dict[str, Any]]) -> str:
    """The table, with each time beside that of the first row of ours in its cell."""
    header = ["name", "engine", "precision", "isa", "threads", "batch", "median ms", "min ms", "images/s", "x ours"]
    cells = []
    for row in rows:
        own = next(
            r for r in rows if r["engine"] == "ftbnn" and (r["threads"], r["batch"]) == (row["threads"], row["batch"])
        )
        cells.append(
            [
                *(row[key] for key in header[:6]),
                f"{row['median_ms']:.3f}",
                f"{row['min_ms']:.3f}",
                f"{row['images_per_s']:.1f}",
                f"{row['median_ms'] / own['median_ms']:.2f}",
            ]
        )
    return table(header, cells)


def sentences(name: str, facts: dict[str, Any]) -> Iterator[str]:
    """What the rows mean, one line each."""
    if facts["random_weights"]:
        yield f"{name}: random weights, for speed alone."
    for isa, of_isa in facts["isas"].items():
        for ratio in of_isa["faster_than"]:
            rival = {"binary": "the same network"}.get(ratio["precision"], f"{ratio['precision']} ResNet-18")
            yield (
                f"{name}, {isa}, threads {ratio['threads']}, batch {ratio['batch']}: {ratio['by_median']:.2f} times as "
                f"fast as {rival} in {ratio['engine']} ({ratio['by_min']:.2f} by minima)."
            )
        for batch, speedup in of_isa["threads_2_over_1"].items():
            yield f"{name}, {isa}, batch {batch}: 2 threads are {speedup:.2f} times as fast as 1."
        took = f"{of_isa['first_answer_ms']:.1f} ms"
        yield f"{name}, {isa}: {took} from opening the file to the first answer, in a fresh process."
    over = 100 * (facts["size_bytes"] / facts["minimum_bytes"] - 1)
    yield (
        f"{name}: {size(facts['size_bytes'])}, {over:.1f} % above the least its numbers need "
        f"({size(facts['minimum_bytes'])}); in fp32 it is {size(facts['fp32_bytes'])}."
    )
