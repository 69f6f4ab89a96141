"""Memory of the training blocks: whatever is taken and dropped in whatever order, blocks never share a byte."""

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ftbnn import _native

KB, MB = 1 << 10, 1 << 20
sizes = st.one_of(st.integers(0, 64 * KB), st.sampled_from([MB, 2 * MB, 2 * MB + 1, 5 * MB]))
takes = st.tuples(st.just("take"), sizes)
drops = st.tuples(st.just("drop"), st.integers(0, 1000))
releases = st.tuples(st.just("release"), st.just(0))


@given(st.lists(st.one_of(takes, takes, drops, releases), max_size=40))
def test_blocks_never_share_a_byte(steps):
    held = []
    for number, (what, value) in enumerate(steps):
        if what == "take":
            block = _native.training.take_block(value)
            assert block.size == value
            block[:] = number
            held.append((block, number))
        elif what == "drop" and held:
            held.pop(value % len(held))
        elif what == "release":
            _native.training.release_blocks()
        for block, mark in held:
            assert np.all(block == mark)


def test_what_is_dropped_is_taken_again():
    first = _native.training.take_block(3 * MB)
    address = first.ctypes.data
    del first
    assert _native.training.take_block(3 * MB).ctypes.data == address


def test_free_neighbours_are_one():
    """Sizes change from forward to backward: two blocks given back hold one of both sizes."""
    whole = _native.training.take_block(64 * MB)
    address = whole.ctypes.data
    del whole
    halves = [_native.training.take_block(32 * MB) for _ in range(2)]
    del halves
    assert _native.training.take_block(64 * MB).ctypes.data == address


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from ftbnn import _native
for _ in range(20):
    blocks = [_native.training.take_block(300 << 20) for _ in range(6)]
    for block in blocks:
        block[:4096] = 1
"""


def test_a_process_with_few_addresses_has_blocks_too():
    assert subprocess.run([sys.executable, "-c", LIMITED], check=False).returncode == 0
