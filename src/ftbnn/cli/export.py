"""export: turn a trained network into one .ftbnn file (or ONNX, QONNX, or plain C)."""

import argparse
from pathlib import Path

from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError
from ftbnn.text import counted, line, size

SUFFIXES = (".ftbnn", ".onnx")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint",
        type=Path,
        help="a run (its best epoch) or a checkpoint; for C and QONNX also a .ftbnn file",
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="default: the run's name with .ftbnn or .onnx; for C a folder"
    )
    parser.add_argument(
        "--zoo",
        metavar="NAME",
        help="evaluate both and write NAME.ftbnn and its card into the zoo; of zoo:NAME: renew what its card tells",
    )
    parser.add_argument("--zoo-dir", type=Path, metavar="DIR", help="another folder for --zoo than the package's")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where the data set of --zoo is")
    parser.add_argument(
        "--about", metavar="TEXT", help="a sentence for the card of --zoo, as where the photos are from"
    )
    parser.add_argument("--licence", metavar="TEXT", help="of the data, for the card of --zoo, where it is not known")
    parser.add_argument("--format", choices=("ftbnn", "onnx", "qonnx", "c"), default="ftbnn", help="default: ftbnn")
    parser.add_argument("--name", help="of --format c: its files and functions are called so (default: model)")


def run(args: argparse.Namespace) -> None:
    from ftbnn.zoo import packed_file

    file = packed_file(args.checkpoint)
    _check(args, file)
    if args.zoo:
        _ship(args)
        return
    if args.format == "c":
        _write_c(args, file)
        return
    out = args.out or _default_name(args.checkpoint, file, "onnx" if args.format == "qonnx" else args.format)
    if out.is_dir():
        raise UserError(f"{out} is a directory; -o takes a file")
    if args.format == "qonnx":
        _exchange(args, file, out if out.suffix == ".onnx" else out.with_name(f"{out.name}.onnx"))
        return
    from ftbnn.workflows.deploy import export

    if out.suffix in SUFFIXES and out.suffix != f".{args.format}":
        raise UserError(f"{out} would hold {args.format}; give --format {out.suffix[1:]}, or another name")
    if out.suffix not in SUFFIXES:
        out = out.with_name(f"{out.name}.{args.format}")
    made = export(args.checkpoint, out, format=args.format)
    if args.json:
        print_json(made.to_json())
        return
    print(f"{line(str(out), 200)}: {size(made.size_bytes)}, the fp32 state is {size(made.fp32_bytes)}")
    if made.samples is not None:
        print(
            f"run natively on {made.samples} samples: same best class for "
            f"{made.top1_agreement:.1%}, median error {made.median_error:.1e}"
        )
    elif made.median_error is None:
        print("not checked: ONNX Runtime is not installed (pip install onnxruntime)")
    else:
        print(f"checked in ONNX Runtime: median error {made.median_error:.1e}")


def _check(args: argparse.Namespace, file: Path | None) -> None:
    """That the options go together, and that PyTorch is there where it is needed: not for what takes packed files."""
    from ftbnn.zoo import name_in

    takes_packed = name_in(args.checkpoint) is not None if args.zoo else args.format in ("c", "qonnx")
    if file is not None and file.exists() and not takes_packed:
        raise UserError(
            f"{args.checkpoint} is packed already: --format c and --format qonnx take it; what else export writes, "
            "onnx too, is made of a run or a checkpoint"
        )
    if not args.zoo and (args.zoo_dir or args.data_dir or args.about or args.licence):
        raise UserError("--zoo-dir, --data-dir, --about and --licence are of --zoo; leave them out")
    if args.name is not None and args.format != "c":
        raise UserError("--name is of --format c; leave it out")
    if args.zoo or file is None or not takes_packed:
        require_torch("ftbnn export")


def _default_name(given: Path, file: Path | None, ending: str) -> Path:
    if file is not None:
        return Path(f"{file.stem}.{ending}")
    from ftbnn.workflows.deploy import default_name

    return default_name(given, ending)


def _write_c(args: argparse.Namespace, file: Path | None) -> None:
    if args.out is None:
        raise UserError("say with -o into which folder to write the C files")
    from ftbnn.workflows.plain_c import export_c

    made = export_c(
        args.checkpoint if file is None else file, args.out, name="model" if args.name is None else args.name
    )
    if args.json:
        print_json(made.to_json())
        return
    print(f"{line(made.folder, 200)}: {', '.join(made.files)}")
    took = made.footprint
    print(
        f"flash: {size(took.constant_bytes)} of constants, and the code; RAM: {size(took.arena_bytes)}, and the stack"
    )
    print(f"an image: {took.binary_operations:,} binary products, {took.float_operations:,} float operations remain")
    print(f"main.c checks itself on {counted(made.images, 'image')} (CMakeLists.txt builds it)")


def _exchange(args: argparse.Namespace, file: Path | None, out: Path) -> None:
    if file is None:
        from ftbnn.workflows.deploy import export_as_qonnx

        made = export_as_qonnx(args.checkpoint, out)
    else:
        from ftbnn.exchange.qonnx_export import export_qonnx

        made = export_qonnx(file, out)
    if args.json:
        print_json(vars(made) | {"path": str(made.path)})
        return
    print(f"{line(str(out), 200)}: {size(made.size_bytes)} in {made.nodes} nodes")
    print(
        f"imported again and compared on {made.samples} samples: same best class for {made.same_class:.1%}, "
        f"largest error {made.largest_error:.1e}"
    )


def _ship(args: argparse.Namespace) -> None:
    from ftbnn.workflows.ship import renew, ship
    from ftbnn.zoo import FOLDER, name_in

    if args.out or args.format != "ftbnn":
        raise UserError("--zoo names its files itself; leave -o and --format out (--zoo-dir chooses the folder)")
    where, licence = (args.data_dir, args.zoo_dir or FOLDER), args.licence or ""
    if (known := name_in(args.checkpoint)) is None:
        card = ship(args.checkpoint, args.zoo, *where, about=args.about or "", licence=licence)
    elif known == args.zoo and not args.about:
        card = renew(known, *where, licence=licence)
    else:
        raise UserError(f"the card of zoo:{known} is renewed by --zoo {known}, without --about")
    if args.json:
        print_json(card)
        return
    accuracy = f"checkpoint {card['checkpoint_top1']:.2f} %, packed {card['packed_top1']:.2f} % on {card['data']}"
    print(f"{line(card['path'], 200)}: {size(card['size_bytes'])}; {accuracy}; {card['latency_ms']:.3f} ms an image")
