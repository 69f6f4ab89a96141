"""inspect: what a .ftbnn file holds, operator by operator. Needs no PyTorch."""

import argparse
from pathlib import Path

from ftbnn.cli.output import print_json
from ftbnn.errors import UserError
from ftbnn.text import counted, line, size, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a .ftbnn file, or zoo:NAME")
    parser.add_argument("--profile", action="store_true", help="run it on a grey image and show where the time goes")
    parser.add_argument("--mcu", action="store_true", help="what it takes as C on a microcontroller: flash, RAM, work")
    parser.add_argument("--threads", type=int, default=1, help="threads of --profile (default: 1)")


def run(args: argparse.Namespace) -> None:
    import numpy as np

    from ftbnn.runtime import load
    from ftbnn.zoo import resolve

    path = resolve(args.model)
    if args.mcu:
        if args.profile:
            raise UserError("--profile measures this machine, --mcu counts for another: give one of them")
        _show_footprint(path, as_json=args.json)
        return
    model = load(path, threads=args.threads)
    rows = model.operators()
    times = []
    if args.profile:
        channels, height, width = model.input_shape
        times = model.profile(np.full((1, height, width, channels), 128, np.uint8))[1:]
        rows = [row | {"time_ms": t.time_ms, "gmacs_per_s": t.gmacs_per_s} for row, t in zip(rows, times, strict=True)]
    file_bytes = path.stat().st_size
    if args.json:
        facts = {"name": model.name, "input_shape": model.input_shape, "classes": model.class_names}
        print_json(facts | {"size_bytes": file_bytes, "isa": model.isa, "operators": rows})
        return
    shape = "x".join(map(str, model.input_shape))
    names = counted(len(model.class_names), "class name")
    print(f"{line(model.name or path.name)}: {size(file_bytes)}, input {shape}, {names}")
    header = ["operator", "kind", "output", "MACs M", "weight bits", "weights"]
    cells = [
        [
            line(row["path"]),
            row["kind"],
            "x".join(map(str, row["output_shape"])),
            f"{row['macs'] / 1e6:.3f}",
            row["weight_bits"],
            size(row["weight_bytes"]),
            *([f"{row['time_ms']:.4f}", f"{row['gmacs_per_s']:.1f}"] if times else []),
        ]
        for row in rows
    ]
    print(table([*header, *(["ms", "GMAC/s"] if times else [])], cells))
    if times:
        print(f"{sum(t.time_ms for t in times):.3f} ms in all, {counted(model.threads, 'thread')}, {model.isa}")


def _show_footprint(path: Path, *, as_json: bool) -> None:
    from ftbnn.exchange.c_export import footprint

    took = footprint(path)
    if as_json:
        print_json(took.to_json())
        return
    header = ["operator", "kind", "output", "kept as", "binary products", "words of 32 bits", "whole products"]
    header += ["float operations"]
    rows = [
        [
            line(row["path"]),
            row["kind"],
            "x".join(map(str, row["output_shape"])),
            row["kept_as"],
            row["binary_operations"],
            row["words"],
            row["whole_operations"],
            row["float_operations"],
        ]
        for row in took.rows
    ]
    total = ["all", "", "", "", took.binary_operations, took.words, took.whole_operations]
    total += [took.float_operations]
    print(table(header, [*rows, total]))
    print(f"flash: {size(took.constant_bytes)} of constants, and the code (docs/microcontroller.md)")
    print(f"RAM: {size(took.arena_bytes)}, and the stack, the image and the scores")
