"""The ways to count a binary convolution that the ISA in use has, as loops that live in registers."""

from typing import Any

from ftbnn.bench.bounds import bounds
from ftbnn.errors import UserError


def measure(*, rounds: int = 40) -> list[dict[str, Any]]:
    """A row for each loop with its best rate; loops take turns."""
    if rounds < 1:
        raise UserError(f"rounds must be 1 or more, not {rounds}")
    best: dict[str, dict[str, Any]] = {}
    for _ in range(rounds):
        for name, instructions, rate in bounds().binary_loops():
            row = best.setdefault(name, {"name": name, "instructions": instructions, "gmacs_per_s": 0.0})
            row["gmacs_per_s"] = max(row["gmacs_per_s"], rate)
    return list(best.values())
