"""What benchmarks need of the CPU."""



def hides_tile_palette() -> bool:
    """True where libraries that use AMX end in SIGILL."""

def roof(isa: str, binary: bool) -> tuple[str, float] | None:
    """
    (instructions, GMAC/s of one thread right now) of the loop that bounds this ISA's kernels; None if there is none.
    """
