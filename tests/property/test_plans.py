"""Whole networks of operators by lot: what the planner merges, shares, leaves out or puts into one place changes
nothing. The engine against the reader of plain loops; every number is small and whole (or a half), so equal is equal.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reader import read

from ftbnn import _native
from ftbnn.groups import split_groups
from ftbnn.packing.graph import (
    AvgPool,
    BConv,
    Channels,
    Concat,
    Conv,
    Epilogue,
    Graph,
    MaxPool,
    Numbers,
    Operator,
    Pointwise,
    Value,
    Window,
)
from ftbnn.packing.write import InputInfo, encode
from ftbnn.runtime import load

MOST_CHANNELS = 200
ISAS = _native.capabilities()["engine_isas"]
HALF = Window((2, 2), (2, 2), (0, 0))


def after(value: Value, channels: int, w: Window) -> Value:
    sizes = zip((value.height, value.width), w.kernel, w.stride, w.padding, strict=True)
    return Value(channels, *((size + 2 * p - k) // s + 1 for size, k, s, p in sizes))


@dataclass
class Draft:
    """A graph that grows, operator by operator."""

    rng: np.random.Generator
    input: Value
    operators: list[Operator] = field(default_factory=list)

    def add(self, kind: type[Operator], inputs: tuple[Value, ...], output: Value, **fields: object) -> Value:
        self.operators.append(kind(f"{len(self.operators)}", inputs, output, **fields))
        return output

    @property
    def values(self) -> list[Value]:
        return [self.input, *(operator.output for operator in self.operators)]

    def weights(self, value: Value, outputs: int, groups: int, w: Window, choices: list[int]) -> tuple[np.ndarray, ...]:
        shapes = (
            (p.outputs.stop - p.outputs.start, (p.inputs.stop - p.inputs.start) // p.groups, *w.kernel)
            for p in split_groups(value.channels, outputs, groups)
        )
        return tuple(self.rng.choice(choices, shape) for shape in shapes)

    def threshold(self, channels: int) -> Numbers | None:
        """Mostly those of another layer too."""
        lot = self.rng.integers(4)
        return None if lot == 0 else np.full(channels, 1.0) if lot < 3 else self.rng.integers(-3, 4, channels) * 1.0

    def epilogue(self, output: Value) -> Epilogue:
        rng, channels = self.rng, output.channels
        act = str(rng.choice(["clamp", "clamp", "relu", "none", "fprelu"]))
        has_pieces = rng.random() < 0.2
        same = [v for v in self.values if (v.channels, v.height, v.width) == (channels, output.height, output.width)]
        return Epilogue(
            scale=rng.choice([-1.0, 1.0, 2.0, 0.5], channels) if rng.random() < 0.4 else None,
            shift=rng.integers(-3, 4, channels) * 1.0 if rng.random() < 0.5 else None,
            shortcut=same[int(rng.integers(len(same)))] if same and rng.random() < 0.5 else None,
            act=act,  # type: ignore[arg-type]
            low=-8.0 if act == "clamp" else 0.0,
            high=8.0 if act == "clamp" else 0.0,
            left=rng.choice([-1.0, 0.0, 1.0], channels) if act == "fprelu" else None,
            right=rng.choice([-1.0, 0.5, 1.0], channels) if act == "fprelu" else None,
            after=rng.integers(-2, 3, channels) * 1.0 if rng.random() < 0.2 else None,
            first_left=rng.choice([-1.0, 0.0, 1.0], channels) if has_pieces else None,
            first_right=rng.choice([-1.0, 0.5, 1.0], channels) if has_pieces else None,
        )

    def window(self, value: Value) -> Window:
        high, wide = map(int, self.rng.integers(1, 4, 2))
        kernel = min(high, value.height), min(wide, value.width)
        down, right = map(int, self.rng.integers(1, 3, 2))
        return Window(kernel, (down, right), (kernel[0] // 2, kernel[1] // 2))

    def convolve(self, value: Value, *, is_binary: bool) -> None:
        rng, w = self.rng, self.window(value)
        outputs = int(rng.choice([value.channels, 8, 32, 33, 64, 96]))
        groups = int(rng.integers(1, min(value.channels, outputs, 4) + 1)) if rng.random() < 0.3 else 1
        output = after(value, outputs, w)
        end = self.epilogue(output)
        if is_binary:
            positive = tuple(part == 1 for part in self.weights(value, outputs, groups, w, [0, 1]))
            codes = {"zero_one": bool(rng.integers(2)), "threshold": self.threshold(value.channels)}
            self.add(BConv, (value,), output, window=w, groups=groups, positive=positive, epilogue=end, **codes)
        else:
            weights = self.weights(value, outputs, groups, w, [0, 0, 0, 0, 0, 0, 0, 0, -1, 1])
            self.add(Conv, (value,), output, window=w, groups=groups, weights=weights, epilogue=end)

    def pool(self, value: Value) -> None:
        if self.rng.random() < 0.5 and min(value.height, value.width) > 1:
            self.add(AvgPool, (value,), after(value, value.channels, HALF), window=HALF, whole=True)
        else:
            w = self.window(value)
            self.add(MaxPool, (value,), after(value, value.channels, w), window=w)

    def remap(self, value: Value) -> None:
        """Beside itself, turned round, cut or shuffled."""
        one = np.arange(value.channels)
        kinds = [np.r_[one, one], np.roll(one, len(one) // 2), one[: max(1, len(one) // 2)], self.rng.permutation(one)]
        source = kinds[int(self.rng.integers(4))][:MOST_CHANNELS].astype(np.int32)
        self.add(Channels, (value,), Value(len(source), value.height, value.width), source=source)

    def join(self, value: Value) -> None:
        others = [v for v in self.values if (v.height, v.width) == (value.height, value.width)]
        other = others[int(self.rng.integers(len(others)))]
        if value.channels + other.channels <= MOST_CHANNELS:
            output = Value(value.channels + other.channels, value.height, value.width)
            self.add(Concat, (value, other), output)

    def grow(self) -> None:
        value = self.values[int(self.rng.integers(max(0, len(self.values) - 4), len(self.values)))]
        lot = self.rng.choice(["bconv", "conv", "pool", "map", "join", "point"], p=[0.4, 0.1, 0.2, 0.15, 0.05, 0.1])
        if lot in ("bconv", "conv"):
            self.convolve(value, is_binary=lot == "bconv")
        elif lot == "point":
            output = Value(value.channels, value.height, value.width)
            self.add(Pointwise, (value,), output, epilogue=self.epilogue(output))
        else:
            {"pool": self.pool, "map": self.remap, "join": self.join}[lot](value)

    def finish(self) -> Graph:
        """All that nobody reads, each position with a weight of its own, becomes the output."""
        read = {value for operator in self.operators for value in operator.reads()}
        ends = []
        for value in [v for v in self.values if v not in read]:
            w = Window((value.height, value.width), (1, 1), (0, 0))
            weights = (self.rng.choice([1, 2], (value.channels, 1, *w.kernel)),)
            one = Value(value.channels, 1, 1)
            ends.append(self.add(Conv, (value,), one, window=w, groups=value.channels, weights=weights))
        output = self.add(Concat, tuple(ends), Value(sum(end.channels for end in ends), 1, 1))
        return Graph(self.input, output, tuple(self.operators))


def check(graph: Graph, seed: int) -> None:
    entry = graph.input
    file = encode(graph, InputInfo("", [0.0] * entry.channels, [1.0] * entry.channels, 8, ()))
    images = np.random.default_rng(seed).integers(-3, 4, (3, entry.channels, entry.height, entry.width))
    wanted = read(file).run(torch.from_numpy(images).double()).flatten(1).numpy()
    for isa in ISAS:
        for threads in (1, 3):
            got = load(file, threads=threads, isa=isa)(images.astype(np.float32))
            np.testing.assert_array_equal(got, wanted, err_msg=f"{isa}, {threads} threads")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_network_gives_what_its_operators_give_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    draft = Draft(rng, Value(int(rng.choice([1, 3, 8, 32, 40, 64, 70])), *map(int, rng.integers(3, 12, 2))))
    for _ in range(int(rng.integers(4, 12))):
        draft.grow()
    check(draft.finish(), seed)


@pytest.mark.parametrize("side", [8, 9, 65])
def test_a_pool_that_reads_a_map_leaves_other_readers_of_that_map_their_codes(side: int) -> None:
    draft = Draft(np.random.default_rng(0), Value(3, side, side))
    w = Window((3, 3), (1, 1), (1, 1))
    weights = draft.weights(draft.input, 16, 1, w, [0, 0, 0, -1, 1])
    stem = draft.add(Conv, (draft.input,), Value(16, side, side), window=w, groups=1, weights=weights)
    twice = draft.add(Channels, (stem,), Value(32, side, side), source=np.tile(np.arange(16, dtype=np.int32), 2))
    draft.add(MaxPool, (twice,), after(twice, 32, HALF), window=HALF)
    stride = Window((3, 3), (2, 2), (1, 1))
    positive = tuple(part == 1 for part in draft.weights(twice, 32, 1, stride, [0, 1]))
    draft.add(BConv, (twice,), after(twice, 32, stride), window=stride, groups=1, zero_one=False, positive=positive)
    check(draft.finish(), 0)


def test_equal_thresholds_of_differently_ordered_channels_are_two_forms() -> None:
    draft = Draft(np.random.default_rng(0), Value(64, 8, 8))
    w, threshold = Window((3, 3), (1, 1), (1, 1)), np.full(64, 3.0)

    def binary(value: Value, threshold: Numbers | None) -> Value:
        positive = tuple(part == 1 for part in draft.weights(value, 64, 1, w, [0, 1]))
        output = Value(64, 8, 8)
        fields = {"zero_one": False, "positive": positive, "threshold": threshold}
        return draft.add(BConv, (value,), output, window=w, groups=1, **fields)

    first = binary(draft.input, None)
    draft.add(MaxPool, (first,), Value(64, 4, 4), window=HALF)
    turned = draft.add(Channels, (first,), Value(64, 8, 8), source=np.r_[32:64, 0:32].astype(np.int32))
    for value in (first, turned):
        draft.add(MaxPool, (binary(value, threshold),), Value(64, 4, 4), window=HALF)
    check(draft.finish(), 0)
