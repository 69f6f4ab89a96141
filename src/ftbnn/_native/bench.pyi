"""What benchmarks need of the CPU."""



def roof(isa: str, binary: bool, threads: int = 1, seconds: float = 0.0) -> tuple[str, float] | None:
    """
    (instructions, GMAC/s of all threads right now) of the loop that bounds this ISA's kernels, the best of each thread in so many seconds; None if there is none.
    """

def gradient_roof(bytes: bool, threads: int, seconds: float) -> float | None:
    """
    The same of the multiplications that the gradients of binary convolutions are made of.
    """

def binary_loops() -> list[tuple[str, str, float]]:
    """
    (name, instructions, GMAC/s of one thread right now) of every way to count a binary convolution that the ISA in use has.
    """
