"""bench: measure speed and memory, side by side in one run."""

import argparse
from typing import TYPE_CHECKING

from ftbnn.cli import bench_conv, bench_loops, bench_net
from ftbnn.cli.output import print_json, require_torch
from ftbnn.errors import UserError
from ftbnn.machine import cores
from ftbnn.text import counted, table

if TYPE_CHECKING:
    from ftbnn.bench.profile import Profile
    from ftbnn.bench.train import Case

LEAST_SHARE = 0.002  # of a step, to stand in the printed profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    _add_train(kinds.add_parser("train", help="a training step in each formulation"))
    bench_net.add_arguments(kinds.add_parser("net", help="whole networks beside other engines"))
    bench_conv.add_arguments(kinds.add_parser("conv", help="single layers beside the roof of their ISA"))
    bench_loops.add_arguments(kinds.add_parser("loops", help="ways to count bits on this CPU, in registers"))
    for kind in kinds.choices.values():  # behind WHAT too; unset there, it must not undo the one before
        kind.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")


def run(args: argparse.Namespace) -> None:
    {"train": _run_train, "net": bench_net.run, "conv": bench_conv.run, "loops": bench_loops.run}[args.what](args)


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a name from `ftbnn models`")
    parser.add_argument("--width", type=int, help="channels of the first stage (default: the model's)")
    parser.add_argument("--batch", type=int, default=128, help="images per step")
    parser.add_argument("--image-size", type=int, default=32, help="side of the square input, in pixels")
    parser.add_argument("--classes", type=int, default=10, help="number of classes")
    parser.add_argument("--threads", type=int, default=cores(), help="threads of PyTorch")
    parser.add_argument("--rounds", type=int, default=10, help="timed steps per formulation")
    parser.add_argument("--profile", action="store_true", help="where the time of one native step goes instead")
    parser.add_argument("--backend", choices=("native", "native8"), help="of that step (default: native)")
    parser.add_argument("--methods", nargs="*", metavar="NAME", help="a step of each method instead (default: of all)")


def _run_train(args: argparse.Namespace) -> None:
    require_torch("ftbnn bench train")
    from ftbnn.bench.profile import profile_step
    from ftbnn.bench.train import Case, measure

    case = Case(args.model, args.width, args.batch, args.image_size, args.classes, args.threads)
    if args.profile:
        _print_profile(profile_step(case, args.backend or "native", rounds=args.rounds), as_json=args.json)
        return
    if args.methods is not None:
        _print_methods(case, args.methods, rounds=args.rounds, as_json=args.json)
        return
    if args.backend:
        raise UserError("--backend is of --profile; without it all formulations are measured")
    rows = measure(case, rounds=args.rounds)
    if args.json:
        print_json(rows)
        return
    header = ["formulation", "isa", "images/s", "median ms", "min ms", "x plain", "peak MB"]
    cells = [
        [
            row["formulation"],
            row["isa"],
            f"{row['images_per_s']:.1f}",
            f"{row['median_ms']:.1f}",
            f"{row['min_ms']:.1f}",
            f"{row['speedup']:.2f}",
            f"{row['peak_mb']:.0f}",
        ]
        for row in rows
    ]
    print(f"{args.model}, batch {args.batch}, {args.image_size}x{args.image_size}, {counted(args.threads, 'thread')}")
    print(table(header, cells))


def _print_methods(case: "Case", names: list[str], *, rounds: int, as_json: bool) -> None:
    from ftbnn.bench.methods import measure_methods

    rows = list(measure_methods(case, names, rounds=rounds))
    if as_json:
        print_json(rows)
        return
    shares = [backend for backend in ("native", "native8") if f"{backend}_share" in rows[0]]
    header = ["method", "plain ms", *(f"{backend} ms" for backend in shares), "x plain"]
    header += [*(f"{backend}: of ftbnn's speed" for backend in shares), "convolutions natively"]
    cells = [
        [
            row["method"],
            f"{row['plain_ms']:.0f}",
            *(f"{row[f'{backend}_ms']:.0f}" for backend in shares),
            f"{row['speedup']:.2f}",
            *(f"{row[f'{backend}_share']:.2f}" for backend in shares),
            f"{row['natively']} of {row['convolutions']}",
        ]
        for row in rows
    ]
    print(table(header, cells))


def _print_profile(profile: "Profile", *, as_json: bool) -> None:
    if as_json:
        print_json({"step_ms": 1e3 * profile.seconds, "phases": profile.phase_rows(), "operators": profile.rows})
        return
    cells = [
        [
            row["layer"],
            row["operator"],
            f"{row['ms']:.2f}",
            f"{100 * row['share']:.1f}",
            f"{row['gmacs_per_s']:.0f}" if row["gmacs_per_s"] else "",
            f"{100 * row['roof_share']:.0f}" if row["roof_share"] else "",
        ]
        for row in profile.rows
        if row["share"] >= LEAST_SHARE
    ]
    shares = ", ".join(f"{row['phase']} {100 * row['share']:.1f} %" for row in profile.phase_rows())
    print(f"one step: {1e3 * profile.seconds:.1f} ms: {shares}")
    print(f"operators, those below {100 * LEAST_SHARE:g} % left out:")
    print(table(["layer", "operator", "ms", "%", "GMAC/s", "% of roof"], cells))
