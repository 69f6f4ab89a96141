"""bench loops: the ways to count a binary convolution on this CPU, as loops that live in registers."""

import argparse

from ftbnn.cli.output import print_json
from ftbnn.errors import UserError
from ftbnn.machine import capabilities
from ftbnn.text import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=40, help="turns of each loop, a millisecond each")


def run(args: argparse.Namespace) -> None:
    from ftbnn import _native

    if args.rounds < 1:
        raise UserError(f"rounds must be 1 or more, not {args.rounds}")
    best: dict[str, tuple[str, float]] = {}
    for _ in range(args.rounds):
        for name, instructions, rate in _native.bench.binary_loops():
            best[name] = (instructions, max(rate, best.get(name, ("", 0.0))[1]))
    if not best:
        raise UserError(f"there are no loops of {capabilities()['isa']}; choose another ISA with FTBNN_ISA")
    if args.json:
        print_json([{"name": n, "instructions": i, "gmacs_per_s": rate} for n, (i, rate) in best.items()])
        return
    print(f"{capabilities()['cpu']}, one thread; GMAC/s of the fastest turn, operands in registers")
    print(table(["loop", "instructions", "GMAC/s"], [[n, i, f"{rate:.0f}"] for n, (i, rate) in best.items()]))
