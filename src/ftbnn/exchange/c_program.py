"""A graph as a C program: its steps, and the memory they work in."""

import numpy as np
from numpy.typing import NDArray

from ftbnn.errors import UserError
from ftbnn.exchange.c_constants import Constants
from ftbnn.exchange.c_cost import Operations, operations_of
from ftbnn.exchange.c_fold import Limits, limits_of, pixel_limits
from ftbnn.exchange.c_forms import Code, Step, steps_of
from ftbnn.exchange.c_memory import Buffer, lead, place
from ftbnn.exchange.c_stem import stem_of
from ftbnn.packing.graph import BConv, Combine, Fused, Graph, Operator, Value
from ftbnn.text import line

UNIT = 64  # bits: codes start at a multiple, whatever the words
MOST_PRODUCTS = 1 << 24  # of a binary convolution's sum: float32 has no more whole numbers side by side
Floats = NDArray[np.float32]


class Program:
    """`scale` and `shift` are those of 8-bit pixels, by channel."""

    def __init__(self, graph: Graph, scale: Floats, shift: Floats) -> None:
        for operator in graph.operators:
            _check_sums(operator)
        self.graph, self.scale, self.shift = graph, scale, shift
        self.constants = Constants()
        self.image, *self.steps = steps_of(graph)
        self.pixel_limits = None if self.image.real else pixel_limits(scale, shift, self.image.codes[0])
        self._limits = {step.output: _limits(step) for step in self.steps}
        self.stem = stem_of(graph, self.steps[0], scale, shift)
        if self.stem is not None and not self.steps[0].real:
            self._limits[self.steps[0].output] = self.stem.limits(self.steps[0].codes[0])
        self._buffers = _buffers([self.image, *self.steps])
        reals, codes = ([b for form, b in self._buffers.items() if isinstance(form, kind)] for kind in (Value, Code))
        self.real_count = place(reals) + 1 & ~1  # even, so that what is behind starts at a multiple of 8 bytes
        self.code_bits = UNIT * place(codes)
        windows = [part[0].size for step in self.steps for part in getattr(step.operator, "positive", ())]
        self.window_bits = UNIT * _units(max(windows, default=0))

    def at(self, form: Value | Code) -> str:
        """Where a value lies, as C says it."""
        if isinstance(form, Value):
            return f"arena.reals + {self._buffers[form].offset}"
        return f"arena.codes + FTBNN_WORDS({UNIT * self._buffers[form].offset})"

    def limits(self, step: Step) -> Limits | None:
        """The whole numbers that sums are compared with, where that is all it takes."""
        return self._limits[step.output]

    @property
    def arena_bytes(self) -> int:
        return 4 * self.real_count + self.code_bits // 8 + 2 * self.window_bits // 8

    def operations(self, step: Step) -> Operations:
        """For an 8-bit image."""
        if self.stem is not None and step is self.image:
            return Operations()
        is_whole = self.pixel_limits if step.operator is None else self.limits(step)
        is_stem = self.stem is not None and step is self.steps[0]
        return operations_of(step, in_whole_numbers=is_whole is not None, is_stem=is_stem)

    def all_operations(self) -> Operations:
        return sum((self.operations(step) for step in self.steps), self.operations(self.image))


def _check_sums(operator: Operator) -> None:
    if isinstance(operator, BConv) and max(part[0].size for part in operator.positive) >= MOST_PRODUCTS:
        path = line(operator.path)
        raise UserError(f"cannot write {path} as C: its sums have 2^24 products or more, which float32 cannot count")


def _is_spread(operator: Operator, value: Value) -> bool:
    return isinstance(operator, Combine) and value.size != operator.output.size


def _limits(step: Step) -> Limits | None:
    return limits_of(step.operator, step.codes[0]) if isinstance(step.operator, BConv) and not step.real else None


def _units(bits: int) -> int:
    return -(-bits // UNIT)


def _buffers(steps: list[Step]) -> dict[Value | Code, Buffer]:
    buffers: dict[Value | Code, Buffer] = {}
    for number, step in enumerate(steps):
        for read in step.reads:
            buffers[read].dies = number
        for form in step.writes():
            is_code = isinstance(form, Code)
            buffers[form] = Buffer(_units(step.output.size) if is_code else step.output.size, number, number)
        if step.real and step.operator is not None:
            buffers[step.output].leads = {buffers[v]: n for v, n in _leads(step.operator).items() if v in step.reads}
    buffers[steps[-1].output].dies = len(steps)
    return buffers


def _leads(operator: Operator) -> dict[Value, int]:
    """Of the real values that it reads; where one is both input and shortcut, the larger."""
    inputs = [] if isinstance(operator, BConv) else operator.inputs
    # What all positions or channels read again must not be written over.
    leads = {value: lead(operator, value) for value in inputs if not _is_spread(operator, value)}
    if isinstance(operator, Fused) and (shortcut := operator.epilogue.shortcut) is not None:
        leads[shortcut] = max(0, leads.get(shortcut, 0))
    return leads
