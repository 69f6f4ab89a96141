from collections.abc import Sequence


def grad_kernels() -> list[str]:
    """Names of the kernels that run here, best first; an ISA each."""

def grad_input(isa: str, shape: Sequence[int], gy: int, weight: int, tail: int, inside: int, gx: int, threads: int = 1) -> None:
    """
    Adds to gx; shape is n, h, w, in, out, kh, kw, sh, sw, ph, pw, groups. native/training/conv_grad.h.
    """

def grad_weight(isa: str, shape: Sequence[int], gy: int, codes: int, zero_one: bool, weight: int, tail: int, bound: float, gw: int, gtail: int, threads: int = 1) -> None:
    """Writes gw and gtail."""

def conv_gradients(isa: str, shape: Sequence[int], gy: int, weight: int, tail: int, inside: int, gx: int, codes: int, zero_one: bool, bound: float, gw: int, gtail: int, threads: int = 1) -> None:
    """Both gradients in one pass over gy."""

def time_conv_grad(isa: str, shape: Sequence[int], threads: int, rounds: int) -> tuple[float, float, float, float]:
    """
    Seconds of the input's gradient, of the weights' and of both in one, on random data, and the GMAC/s that the CPU could reach.
    """
