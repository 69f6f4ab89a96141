"""Functions of single numbers, with constants per channel: what stands between two convolutions of a QONNX network.

A chain of them that rises or falls and ends in whole numbers is a set of thresholds on what it reads. They are found
by bisection over the very float32 steps that the reference takes, over whole numbers where those are read and over all
floats otherwise: so `>=` and `>`, ties and roundings need no thought of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ftbnn.exchange.qonnx_node import Array, ImportRefused, Node
from ftbnn.exchange.qonnx_reference import OPERATORS, quant_integers, trunc_integers
from ftbnn.packing.graph import ActName, Epilogue

LARGEST = float(np.finfo(np.float32).max)
FARTHEST = float(2.0**100)  # thresholds beyond are never reached
MOST_STEPS = 2**16
MOST_THRESHOLDS = 2**22
Range = tuple[float, float]  # whole numbers


@dataclass(frozen=True, eq=False)
class Function:
    """`op` of x and constants, each (channels, ...). `is_second` has x as the second operand. `whole` is the range of
    whole numbers that it gives, where it gives such."""

    node: Node
    op: str
    constants: tuple[Array, ...] = ()
    is_second: bool = False
    whole: Range | None = None

    def __call__(self, x: Array) -> Array:
        """Of (..., channels)."""
        made: Array
        if self.op in OWN:
            made = OWN[self.op](self, x, *self.constants)
        else:
            operands = (*self.constants, x) if self.is_second else (x, *self.constants)
            made = OPERATORS[self.op](self.node, *operands)
        return np.asarray(made, np.float32)

    def take(self, channels: Array) -> "Function":
        """The same for channels in another order."""
        return replace(self, constants=tuple(numbers[channels] for numbers in self.constants))

    def slope(self) -> Array | None:
        """1 where it rises, -1 where it falls, 0 where it is constant, for each channel; None where it does both."""
        falls = (self.op in FALLING) != (self.is_second and self.op in TURNED)
        rises = (
            self.op in RISING
            or self.op in TURNED
            or self.op == "Add"
            or (self.op in ("PRelu", "LeakyRelu") and (self._left() >= 0).all())
            or (self.op == "FPReLU" and all((slopes >= 0).all() for slopes in self.constants))
            or (self.op == "HardSigmoid" and self.node.get("alpha", 0.2) > 0)
            or (self.op in ("Celu", "Elu", "Selu") and self._rises())
        )
        if falls or rises:
            return np.full(1, -1.0 if falls else 1.0)
        if self.op in ("Mul", "Scale") or (self.op == "Div" and not self.is_second):
            return np.asarray(np.sign(self.constants[0]))
        if self.op == "Where":
            return np.asarray(np.sign(self.constants[0] - self.constants[1]))
        return None

    def _rises(self) -> bool:
        return bool(self.node.get("alpha", 1.0) > 0 and self.node.get("gamma", 1.0) > 0)

    def _left(self) -> Array:
        return self.constants[0] if self.op == "PRelu" else np.full(1, self.node.get("alpha", 0.01))

    def affine(self, channels: int) -> tuple[Array, Array] | None:
        """(scale, shift) in float64, where it is one."""
        one, zero = np.ones(channels), np.zeros(channels)
        numbers = self.constants[0].astype(np.float64) + zero if self.constants else zero
        if self.op == "Where":  # of 0 or 1
            other = self.constants[1].astype(np.float64) + zero
            return numbers - other, other
        if self.op == "Add":
            return one, numbers
        if self.op == "Sub":
            return (-one, numbers) if self.is_second else (one, -numbers)
        if self.op in ("Mul", "Scale"):
            return numbers, zero
        if self.op == "Div" and not self.is_second and numbers.all():
            return 1 / numbers, zero
        return (-one, zero) if self.op == "Neg" else None

    def epilogue(self, channels: int) -> Epilogue:
        """As a file holds it."""
        if (affine := self.affine(channels)) is not None:
            scale, shift = affine
            return Epilogue(scale=None if (scale == 1).all() else scale, shift=shift if shift.any() else None)
        if self.op in CURVES:
            return Epilogue(act=CURVES[self.op])
        if self.op not in BENT:
            raise ImportRefused(self.node, f"{self.op} has no words in a .ftbnn file")
        return BENT[self.op](self, np.ones(channels))


def _fprelu(_: Function, x: Array, left: Array, right: Array) -> Array:
    return np.where(x > 0, x * right, x * left)


def _prelu_end(self: Function, spread: Array) -> Epilogue:
    return Epilogue(act="prelu", left=self._left() * spread)


def _fprelu_end(self: Function, spread: Array) -> Epilogue:
    return Epilogue(act="fprelu", left=self.constants[0] * spread, right=self.constants[1] * spread)


def _hard_sigmoid_end(self: Function, spread: Array) -> Epilogue:
    alpha, beta = self.node.get("alpha", 0.2), self.node.get("beta", 0.5)
    if np.float32(alpha) == np.float32(1 / 6) and beta == 0.5:
        return Epilogue(act="hardsigmoid")
    return Epilogue(scale=alpha * spread, shift=beta * spread, act="clamp", low=0.0, high=1.0)


def _clip_end(self: Function, _: Array) -> Epilogue:
    low, high = (float(it.ravel()[0]) for it in self.constants)
    if any((it != it.ravel()[0]).any() for it in self.constants) or not low <= high:
        raise ImportRefused(self.node, "its limits differ within the tensor, or cross")
    return Epilogue(act="clamp", low=max(low, -LARGEST), high=min(high, LARGEST))


BENT: dict[str, Callable[[Function, Array], Epilogue]] = {
    "Clip": _clip_end,
    "FPReLU": _fprelu_end,
    "HardSigmoid": _hard_sigmoid_end,
    "LeakyRelu": _prelu_end,
    "PRelu": _prelu_end,
}


# What stands in no ONNX file: parts of its operators, and what several of them together are.
OWN: dict[str, Callable[..., Array]] = {
    "Clip": lambda _, x, low, high: np.minimum(np.maximum(x, low), high),
    "Count": lambda _, x, thresholds: (x[..., None] >= thresholds).sum(-1),
    "FPReLU": _fprelu,
    "IsNotNegative": lambda _, x: x >= 0,
    "QuantIntegers": lambda self, x, scale, zero, bits: quant_integers(self.node, x, scale, zero, bits),
    "Scale": lambda _, x, factor: x.astype(np.float64) * factor,  # rounded once: what a sum of products is
    "Silu": lambda self, x: x * OPERATORS["Sigmoid"](self.node, x),
    "TruncIntegers": lambda self, x, *numbers: trunc_integers(self.node, x, *numbers),
    "Where": lambda _, x, first, second: np.asarray(np.where(x != 0, first, second)),
}
RISING = frozenset(
    "Ceil Clip Count Floor IsNotNegative QuantIntegers Relu Round Sigmoid Sign Softplus Softsign Tanh "
    "TruncIntegers".split()
)
FALLING = frozenset(("Less", "LessOrEqual", "Neg", "Not"))
TURNED = frozenset(("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Sub"))  # where x is the second operand
CURVES: dict[str, ActName] = {
    "Relu": "relu",
    "HardSwish": "hardswish",
    "Sigmoid": "sigmoid",
    "Silu": "silu",
    "Tanh": "tanh",
}


def apply(functions: Sequence[Function], x: Array) -> Array:
    """The whole chain, of (..., channels)."""
    y = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        for function in functions:
            y = function(y)
    return y


def slope(functions: Sequence[Function], channels: int) -> Array | None:
    """1 or -1 (or 0) for each channel; None where a function both rises and falls."""
    total = np.ones(channels)
    for function in functions:
        one = function.slope()
        if one is None:
            return None
        total = total * one
    return total


def affine(functions: Sequence[Function], channels: int) -> tuple[Array, Array] | None:
    """The chain as (scale, shift) in float64, where it is one."""
    scale, shift = np.ones(channels), np.zeros(channels)
    for function in functions:
        one = function.affine(channels)
        if one is None:
            return None
        scale, shift = scale * one[0], shift * one[0] + one[1]
    return scale, shift


@dataclass(frozen=True)
class Domain:
    """The numbers that a chain reads: whole ones from low to high, or floats."""

    low: float = -FARTHEST
    high: float = FARTHEST
    is_whole: bool = False


def thresholds(functions: Sequence[Function], levels: Range, domain: Domain, channels: int) -> Array:
    """(channels, levels[1] - levels[0]) numbers t: where the chain rises, it gives more than levels[0] + k where
    x > t[k]; where it falls, where x <= t[k]."""
    direction = slope(functions, channels)
    assert direction is not None
    count = int(levels[1] - levels[0])
    wanted = np.arange(levels[0] + 1, levels[1] + 1, dtype=np.float64)[:, None]
    falls = direction < 0

    def is_past(x: Array) -> Array:
        """False up to a threshold and True behind it."""
        reached = apply(functions, x) >= wanted
        return np.asarray(reached != falls)

    if domain.is_whole:
        first, end = int(domain.low), int(domain.high) + 1
        at = _bisect(lambda k: is_past(k.astype(np.float32)), first, end, (count, channels))
        found = np.where(at >= end, LARGEST, np.where(at <= first, -LARGEST, at - 0.5))
    else:
        ends = _ordered(np.array([-FARTHEST, FARTHEST], np.float32)).tolist()
        at = _bisect(lambda k: is_past(_unordered(k)), ends[0], ends[1], (count, channels))
        found = np.where(at >= ends[1], LARGEST, np.where(at <= ends[0], -LARGEST, _unordered(at - 1)))
    return np.ascontiguousarray(found.T.astype(np.float32))


def _bisect(is_past: Callable[[Array], Array], first: int, end: int, shape: tuple[int, int]) -> Array:
    """The first whole number of each entry at which is_past is True; `end` where it never is."""
    low, high = np.full(shape, first, np.int64), np.full(shape, end, np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        past = is_past(middle) | (low >= high)
        low, high = np.where(past, low, middle + 1), np.where(past & (low < high), middle, high)
    return low


def _ordered(x: Array) -> Array:
    """Floats as whole numbers of the same order, neighbours one apart."""
    bits = x.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)


def _unordered(k: Array) -> Array:
    bits = np.where(k < 0, (-(k + 1)) | 0x80000000, k)
    floats: Array = bits.astype(np.uint32).view(np.float32)
    return floats


def constants_of(functions: Sequence[Function]) -> list[Any]:
    return [numbers for function in functions for numbers in function.constants]


def uniform(functions: Sequence[Function]) -> tuple[Function, ...] | None:
    """The chain for one channel, where it is the same for all."""
    if any((numbers != numbers[:1]).any() for numbers in constants_of(functions)):
        return None
    return tuple(function.take(np.zeros(1, np.int64)) for function in functions)
