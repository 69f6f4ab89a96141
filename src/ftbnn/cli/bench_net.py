"""bench net: whole networks in our engine beside ONNX Runtime, OpenVINO and PyTorch."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from ftbnn.cli.output import print_json, require_torch
from ftbnn.drawing import picture_file
from ftbnn.errors import UserError
from ftbnn.text import line, size, table

CELL = ("threads", "batch")
RIVALS = {"fp32": "fp32 ResNet-18", "int8": "int8 ResNet-18", "binary": "same network"}


def numbers(text: str) -> list[int]:
    """`1,2` as a list."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers like 1,2") from None


def names(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def methods(text: str) -> list[str]:
    """Names between commas, some of which have numbers: abc(3,3)."""
    return re.findall(r"[^,(]+(?:\([^)]*\))?", text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="*", metavar="NAME|FILE", help="a model's name, a run directory, a .ftbnn file or zoo:NAME"
    )
    parser.add_argument("--paper", action="store_true", help="ftbnn18 and the paper's 20 derived networks")
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
        "--isa",
        type=names,
        default=[],
        metavar="I,...",
        help="ISAs of our engine (default: the best); peers are held to a single one",
    )
    parser.add_argument("--image-size", type=int, help="side of the input in pixels (default: the model's, mostly 224)")
    parser.add_argument(
        "--width", type=int, help="channels of the first stage; of a file or run: of the ResNet-18 beside it"
    )
    parser.add_argument(
        "--method", type=methods, default=[], metavar="M,...", help="networks made binary in each of these ways"
    )
    parser.add_argument("--stem-bits", type=int, metavar="8|16", help="round the stem's weights (default: float32)")
    parser.add_argument(
        "--input",
        choices=("float32", "uint8"),
        default="float32",
        help="normalised images (the default), or 8-bit ones that every engine normalises itself",
    )
    parser.add_argument("--rounds", type=int, default=10, help="turns of each contender")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw milliseconds per image")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write JSON, picture and README.md there")


def run(args: argparse.Namespace) -> None:
    require_torch("ftbnn bench net")
    if args.plot:
        args.plot = picture_file(args.plot)
    from ftbnn.bench.onednn import protect

    limit = protect(args.isa)  # before PyTorch is imported
    from ftbnn.bench import picture, report
    from ftbnn.bench.net import Comparison, compare

    if args.paper == bool(args.models):
        raise UserError("say which networks to measure, or --paper for the paper's")
    if args.paper and args.method:
        raise UserError("--paper has the networks' own method; name the networks for another one")
    if args.paper:
        from ftbnn.experiments.speeds import NAMES, draw_speeds, show_speeds, speed_rows

        args.models, args.peers = list(NAMES), [peer for peer in args.peers if peer != "torch"]
    if args.report:
        report.create(args.report)
    what = Comparison(
        args.models,
        args.threads,
        args.batch,
        args.peers,
        args.isa,
        args.image_size,
        args.width,
        args.rounds,
        stem_bits=args.stem_bits,
        methods=args.method,
        is_pixels=args.input == "uint8",
    )
    result = compare(what, lambda text: print(line(text, 500), file=sys.stderr, flush=True))
    parts = [show_rows(result.rows), show_ratios(result.ratios), "\n".join(map(about_file, result.files))]
    if args.paper:
        speeds = speed_rows(result.rows)
        parts = [show_speeds(speeds)]
        if args.report:
            draw_speeds(speeds, result.rows, args.report / "paper.png")
    if limit:
        parts.append(f"PyTorch and OpenVINO were held to ONEDNN_MAX_CPU_ISA={limit}.")
    if args.plot:
        picture.draw(result.rows, args.plot, report.machine()["cpu"])
    if args.report:
        more = {"ratios": result.ratios, "files": result.files}
        report.write(
            args.report,
            "paper" if args.paper else "net",
            result.rows,
            text="\n\n".join(parts),
            picture=not args.paper,
            **more,
        )
    if args.json:
        print_json(result.rows)
    print("\n\n".join(parts), file=sys.stderr if args.json else sys.stdout)


def show_rows(rows: list[dict[str, Any]]) -> str:
    """The table, with each time beside that of the first row of ours for as many threads and images."""
    header = ["name", "engine", "precision", "isa", "threads", "batch", "median ms", "min ms", "images/s", "x ours"]
    cells = []
    for row in rows:
        own = next(r for r in rows if r["engine"] == "ftbnn" and all(r[key] == row[key] for key in CELL))
        times = [f"{row['median_ms']:.3f}", f"{row['min_ms']:.3f}", f"{row['images_per_s']:.1f}"]
        cells.append([*(row[key] for key in header[:6]), *times, f"{row['median_ms'] / own['median_ms']:.2f}"])
    return table(header, cells)


def show_ratios(ratios: list[dict[str, Any]]) -> str:
    header = ["how many times as fast as", "isa", "threads", "batch", *RIVALS.values(), "1 thread"]
    cells = [
        [
            *(ratio[key] for key in ("name", "isa", "threads", "batch")),
            *(_against(ratio, precision) for precision in RIVALS),
            f"{ratio['one_thread']:.2f}" if "one_thread" in ratio else "",
        ]
        for ratio in ratios
    ]
    return f"{table(header, cells)}\n(by medians; in brackets by minima; always the fastest engine of its kind)"


def _against(ratio: dict[str, Any], precision: str) -> str:
    if precision not in ratio:
        return ""
    return f"{ratio[precision]:.2f} ({ratio[precision + '_min']:.2f}) {ratio[precision + '_engine']}"


def about_file(file: dict[str, Any]) -> str:
    answers = ", ".join(f"{ms:.1f} ms ({isa})" for isa, ms in file["first_answer_ms"].items())
    weights = "; random weights, for speed alone" if file["random_weights"] else ""
    name = line(file["name"])
    return (
        f"{name}: {size(file['size_bytes'])}, {file['size_bytes'] / file['minimum_bytes']:.3f} times the least "
        f"(a bit for a binary weight, fp32 for the rest); in fp32 {size(file['fp32_bytes'])}{weights}\n"
        f"{name}: from opening the file to the first answer, in a fresh process: {answers}"
    )
