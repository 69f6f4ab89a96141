"""What benchmarks need of the CPU."""



def read_graph(path: str) -> tuple[list[tuple[int, int, int]], list[dict[str, object]]]:
    """
    The values and operators of a file, as docs/format.md names them; arrays are bytes.
    """

def hides_tile_palette() -> bool:
    """True where libraries that use AMX end in SIGILL."""

def roof(isa: str, binary: bool) -> tuple[str, float] | None:
    """
    (instructions, GMAC/s of one thread right now) of the loop that bounds this ISA's kernels; None if there is none.
    """
