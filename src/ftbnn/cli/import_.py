"""import: turn a QONNX network (of Brevitas, QKeras or FINN's tools) or one of Larq into one .ftbnn file."""

import argparse
from pathlib import Path

from ftbnn.cli.output import print_json
from ftbnn.errors import UserError
from ftbnn.text import counted, line, size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", type=Path, help="a QONNX or ONNX file, or .tflite of Larq (docs/exchange.md)")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: the network's name with .ftbnn")
    parser.add_argument("--name", default="", help="of the network, in the file")
    parser.add_argument("--mean", type=_numbers, metavar="M[,M...]", help="of images on the scale 0 to 1; default 0")
    parser.add_argument("--std", type=_numbers, metavar="S[,S...]", help="their deviation; default 1: x / 255 enters")
    parser.add_argument("--resize", type=int, metavar="N", help="a photo's shorter side before its centre is cut out")
    parser.add_argument("--classes", type=Path, metavar="FILE", help="names of the classes, one in a line")
    parser.add_argument("--samples", type=Path, metavar="FILE.npy", help="inputs to compare on; default: random pixels")


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, or several as 0.5,0.5,0.5") from None


def run(args: argparse.Namespace) -> None:
    from ftbnn.exchange.qonnx_import import import_network

    out = args.out or args.network.with_suffix(".ftbnn").name
    out = Path(out)
    if out.is_dir():
        raise UserError(f"{out} is a directory; -o takes a file")
    if out.suffix != ".ftbnn":
        out = out.with_name(f"{out.name}.ftbnn")
    made = import_network(
        args.network,
        out,
        name=args.name,
        mean=args.mean,
        std=args.std,
        class_names=_lines(args.classes) if args.classes else None,
        resize=args.resize,
        samples=_samples(args.samples) if args.samples else None,
    )
    if args.json:
        print_json(made.to_json())
        return
    for note in made.notes:
        print(note)
    print(
        f"{line(str(out), 200)}: {size(made.size_bytes)} in {counted(made.operators, 'operator')}; "
        f"it came from {size(made.source_bytes)}"
    )
    print(
        f"run natively and by its own nodes on {counted(made.samples, 'sample')}: {counted(made.tensors, 'tensor')} "
        f"the same, same best class for {made.same_class:.1%}, same outputs for {made.same_outputs:.1%}, "
        f"largest error {made.largest_error:.1e}"
    )


def _lines(path: Path) -> list[str]:
    try:
        return [name for name in path.read_text().splitlines() if name]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _samples(path: Path):  # type: ignore[no-untyped-def]  # NumPy is imported by the verb alone
    import numpy as np

    try:
        with path.open("rb") as file:  # np.load opens archives too
            return np.lib.format.read_array(file, allow_pickle=False).astype(np.float32)
    except OSError as error:
        raise UserError(f"cannot read samples from {path}: {error.strerror or error}") from error
    except ValueError as error:  # NumPy's own advice would be to let the file run code
        raise UserError(
            f"cannot read samples from {path}: it is no .npy file of numbers, as numpy.save writes"
        ) from error
