"""The memory plan: nothing that lives is overwritten, and an output in its input's place reads before it writes."""

import numpy as np
import pytest
from c_graphs import Maker
from hypothesis import given
from hypothesis import strategies as st

from ftbnn.exchange.c_memory import Buffer, lead, place
from ftbnn.packing.graph import AverageTo, Flatten, MaxPool, Pointwise, Value, Window


@st.composite
def lives(draw):
    buffers = []
    for born in range(draw(st.integers(1, 12))):
        buffers.append(Buffer(draw(st.integers(1, 50)), born, born + draw(st.integers(0, 4))))
    for output in buffers:
        for value in buffers:
            if value.dies == output.born and value is not output and draw(st.booleans()):
                output.leads[value] = draw(st.integers(-20, 60))
    return buffers


@given(lives())
def test_what_lives_together_lies_apart_or_as_far_as_the_lead_says(buffers):
    total = place(buffers)
    assert total == max(b.offset + b.size for b in buffers)
    for one in buffers:
        assert one.offset >= 0
        for other in buffers:
            if one is other or not one.lives_with(other):
                continue
            apart = one.offset + one.size <= other.offset or other.offset + other.size <= one.offset
            runs_in = other in one.leads and other.offset - one.offset >= one.leads[other]
            runs_out = one in other.leads and one.offset - other.offset >= other.leads[one]
            assert apart or runs_in or runs_out


def reads_of(operator, value):
    """For each element of the output, in order, the elements of the input that it reads."""
    out = operator.output
    if isinstance(operator, Flatten):
        positions = value.height * value.width
        for c in range(value.channels):
            for p in range(positions):
                yield {p * value.channels + c}
        return
    for y in range(out.height):
        for x in range(out.width):
            if isinstance(operator, AverageTo):
                rows, columns = (
                    range(i * n // m, -(-(i + 1) * n // m))
                    for i, n, m in ((y, value.height, out.height), (x, value.width, out.width))
                )
            else:
                (kh, kw), (sh, sw), (ph, pw) = operator.window.kernel, operator.window.stride, operator.window.padding
                rows = range(max(0, y * sh - ph), min(value.height, y * sh - ph + kh))
                columns = range(max(0, x * sw - pw), min(value.width, x * sw - pw + kw))
            for c in range(out.channels):
                yield {(i * value.width + j) * value.channels + c for i in rows for j in columns}


@pytest.mark.parametrize("seed", range(30))
def test_with_its_lead_no_output_overwrites_what_is_read_later(seed):
    maker = Maker(seed)
    value = maker.input
    window, output = maker.windowed(value, value.channels)
    operators = [
        MaxPool("", (value,), output, window=window),
        AverageTo("", (value,), Value(value.channels, max(1, value.height // 2), 1 + value.width // 3)),
        Flatten("", (value,), Value(value.size, 1, 1)),
    ]
    for operator in operators:
        ahead = lead(operator, value)
        needed = list(reads_of(operator, value))
        later = np.inf
        for element in reversed(range(len(needed))):
            if element + 1 < len(needed):
                later = min(later, *needed[element + 1])
            assert element < ahead + later, "written before it was read"


def test_a_pointwise_operator_works_in_place():
    value = Value(3, 4, 5)
    one = Pointwise("", (value,), Value(3, 4, 5))
    assert lead(one, value) == 0


def test_a_window_of_one_position_needs_no_lead_but_its_own():
    value = Value(4, 8, 8)
    pool = MaxPool("", (value,), Value(4, 4, 4), window=Window((2, 2), (2, 2), (0, 0)))
    assert lead(pool, value) == 4
