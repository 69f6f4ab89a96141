"""Random networks of every operator, with odd sizes, uneven groups, shortcuts, thresholds and all non-linearities."""

from collections.abc import Callable

import numpy as np

from ftbnn.packing.graph import (
    ACTS,
    AverageTo,
    AvgPool,
    BConv,
    Channels,
    Combine,
    Concat,
    Conv,
    Epilogue,
    Flatten,
    Graph,
    Linear,
    Map,
    MaxPool,
    Pointwise,
    RoundedConv,
    Steps,
    Value,
    Window,
)
from ftbnn.packing.write import InputInfo, encode


class Maker:
    """Grows a graph, one random operator after the other."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.input = Value(self.pick(1, 2, 3, 5), self.pick(5, 6, 8, 11), self.pick(5, 7, 9))
        self.values, self.operators = [self.input], []
        self.plain = self.random.random() < 0.4  # no shortcuts: what only signs read becomes whole numbers

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def numbers(self, count):
        """Of both signs, some 0, so that float32 holds them."""
        drawn = self.random.normal(size=count) * (self.random.random(count) < 0.9)
        return drawn.astype(np.float32).astype(np.float64)

    def maybe(self, share, count):
        return self.numbers(count) if self.random.random() < share else None

    def write(self, make: Callable, inputs, output, **fields):
        self.operators.append(make(f"layer{len(self.operators)}.x", tuple(inputs), output, **fields))
        self.values.append(output)

    def epilogue(self, output):
        channels = output.channels
        same = [v for v in self.values if (v.channels, v.height, v.width) == (channels, output.height, output.width)]
        shortcut = self.pick(*same) if same and not self.plain and self.random.random() < 0.7 else None
        act = self.pick(*(ACTS[:5] if self.plain else ACTS))
        slopes = {"left": self.numbers(channels)} if act in ("prelu", "fprelu") else {}
        if act == "fprelu":
            slopes["right"] = self.numbers(channels)
        low, high = sorted(self.numbers(2)) if act == "clamp" else (0.0, 0.0)
        return Epilogue(
            scale=self.maybe(0.7, channels),
            shift=self.maybe(0.7, channels),
            shortcut=shortcut,
            act=act,
            low=float(low),
            high=float(high),
            after=self.maybe(0.3, channels),
            **slopes,
            **self.pieces(channels),
        )

    def pieces(self, channels):
        """What stands before a shortcut: nothing mostly; a ReLU, a PReLU, any slopes."""
        kind = self.random.choice(["none", "none", "relu", "prelu", "any"])
        if kind == "none":
            return {}
        left = np.zeros(channels) if kind == "relu" else self.numbers(channels)
        right = self.numbers(channels) if kind == "any" else np.ones(channels)
        return {"first_left": left, "first_right": right}

    def windowed(self, value, channels):
        """A window that touches the map everywhere, and the output it gives."""
        kernel = tuple(int(self.random.integers(1, min(3, side) + 1)) for side in (value.height, value.width))
        stride = tuple(int(self.random.integers(1, 3)) for _ in range(2))
        padding = tuple(int(self.random.integers(0, size)) for size in kernel)
        sides = []
        for size, k, s, p in zip((value.height, value.width), kernel, stride, padding, strict=True):
            most = (size + p - 1) // s + 1  # the last window still touches the map
            sides.append(int(min(most, (size + 2 * p - k) // s + 1 + self.random.integers(2))))
        return Window(kernel, stride, padding), Value(channels, *sides)

    def weights(self, value, output, window, groups, draw):
        """One array, or two where the last group is larger."""
        ins, outs = value.channels // groups, output.channels // groups
        if ins * groups == value.channels and outs * groups == output.channels:
            return (draw((output.channels, ins, *window.kernel)),)
        last = (output.channels - outs * (groups - 1), value.channels - ins * (groups - 1))
        return draw((outs * (groups - 1), ins, *window.kernel)), draw((*last, *window.kernel))

    def convolution(self, kind):
        value = self.values[-1]
        window, output = self.windowed(value, int(self.random.integers(1, 40)))
        groups = self.pick(1, 1, 2, 3)
        groups = min(groups, value.channels, output.channels)
        fields = {"window": window, "groups": groups, "epilogue": self.epilogue(output)}
        if kind is Conv:
            fields["weights"] = self.weights(value, output, window, groups, self.numbers)
        elif kind is RoundedConv:
            bits = self.pick(8, 16)
            most, width = 2 ** (bits - 1), f"i{bits // 8}"
            draw = lambda shape: self.random.integers(1 - most, most, shape).astype(width)  # noqa: E731
            fields |= {"bits": bits, "integers": self.weights(value, output, window, groups, draw)}
            fields["unit"] = np.abs(self.numbers(output.channels)) / most + 2.0**-10
        else:
            draw = lambda shape: self.random.random(shape) < 0.5  # noqa: E731
            fields["positive"] = self.weights(value, output, window, groups, draw)
            fields |= {"zero_one": bool(self.pick(0, 1)), "threshold": self.maybe(0.4, value.channels)}
        self.write(kind, [value], output, **fields)

    def pool(self, kind):
        value = self.values[-1]
        window, output = self.windowed(value, value.channels)
        divisor = {"whole": bool(self.pick(0, 1))} if kind is AvgPool else {}
        self.write(kind, [value], output, window=window, **divisor)

    def average_to(self, sides=None):
        value = self.values[-1]
        sides = sides or (int(self.random.integers(1, side + 1)) for side in (value.height, value.width))
        self.write(AverageTo, [value], Value(value.channels, *sides))

    def concat(self):
        value = self.values[-1]
        others = [v for v in self.values if (v.height, v.width) == (value.height, value.width)]
        parts = [value, *(self.pick(*others) for _ in range(self.pick(1, 2)))]
        self.write(Concat, parts, Value(sum(part.channels for part in parts), value.height, value.width))

    def channels(self):
        value = self.values[-1]
        count = int(self.random.integers(1, 2 * value.channels + 1))
        twice = np.tile(np.arange(value.channels), 2)[:count]
        source = self.pick(twice, self.random.integers(0, value.channels, count)).astype(np.int32)
        self.write(Channels, [value], Value(count, value.height, value.width), source=source)

    def pointwise(self):
        value = self.values[-1]
        output = Value(value.channels, value.height, value.width)
        self.write(Pointwise, [value], output, epilogue=self.epilogue(output))

    def steps(self):
        value = self.values[-1]
        rows, count = self.pick(1, value.channels), int(self.random.integers(1, 9))
        thresholds = np.sort(self.numbers(rows * count).reshape(rows, count), axis=1)
        self.write(Steps, [value], Value(value.channels, value.height, value.width), thresholds=thresholds)

    def combine(self):
        """With a value of the same shape, or the average of its positions."""
        value = self.values[-1]
        same = [
            v for v in self.values if (v.channels, v.height, v.width) == (value.channels, value.height, value.width)
        ]
        other = self.pick(*same)
        if self.random.random() < 0.5:
            self.average_to(sides=(1, 1))
            other = self.values[-1]
        output = Value(value.channels, value.height, value.width)
        self.write(Combine, [value, other], output, is_sum=bool(self.pick(0, 1)))

    def map(self):
        value = self.values[-1]
        factors = self.numbers(value.height * value.width).reshape(value.height, value.width)
        self.write(Map, [value], Value(value.channels, value.height, value.width), factors=factors)

    def flatten(self):
        value = self.values[-1]
        self.write(Flatten, [value], Value(value.size, 1, 1))

    def linear(self):
        value, output = self.values[-1], Value(int(self.random.integers(1, 20)), 1, 1)
        weight = self.numbers(output.channels * value.channels).reshape(output.channels, value.channels)
        self.write(Linear, [value], output, weight=weight, epilogue=self.epilogue(output))

    def sign_again(self):
        """The same value with another threshold."""
        value = self.pick(*self.values[-3:])
        self.values.append(value)
        self.convolution(BConv)

    def graph(self) -> Graph:
        binary = lambda: self.convolution(BConv)  # noqa: E731
        middle = [binary] * 5 + [self.pointwise, self.average_to, self.concat, self.channels, self.sign_again]
        middle += [lambda: self.convolution(Conv), lambda: self.convolution(RoundedConv)]
        middle += [lambda: self.pool(MaxPool)] * 2 + [lambda: self.pool(AvgPool)]
        middle += [self.steps, self.combine, self.map]
        if self.random.random() < 0.3:
            self.convolution(RoundedConv)
        for _ in range(self.random.integers(3, 10)):
            self.pick(*middle)()
        for step in self.pick((self.flatten, self.linear), (self.flatten, binary, self.linear), (binary,), ()):
            step()
        return Graph(self.input, self.values[-1], tuple(self.operators))


def random_file(seed: int) -> bytes:
    maker = Maker(seed)
    graph = maker.graph()
    channels = graph.input.channels
    std = tuple(maker.random.uniform(0.1, 0.9, channels))
    info = InputInfo(f"random {seed}", maker.random.random(channels).tolist(), std, 16, ())
    return encode(graph, info)
