"""Convolutions as tests describe them: sizes by lot, numbers of an epilogue, buffers with guards around."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

ACTS = ["none", "relu", "prelu", "fprelu", "clamp"]
PANEL = 32
GUARD, CODE_GUARD = np.float32(-12345.0), np.uint32(0xDEADBEEF)

# An n-term sum of floats is off by at most n half-units of the sum of magnitudes, on each of the two sides compared.
HALF_UNIT = 2.0**-24


def groups_of(channels: int, groups: int) -> list[range]:
    """floor(channels / groups) each, and the last takes the remainder too."""
    size = channels // groups
    return [range(g * size, channels if g == groups - 1 else (g + 1) * size) for g in range(groups)]


@dataclass(frozen=True)
class Case:
    inputs: int = 64
    outputs: int = PANEL
    h: int = 6
    w: int = 7
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (1, 1)
    extra: tuple[int, int] = (0, 0)  # output rows and columns whose windows hang out at the bottom and right
    groups: int = 1
    zero_one: bool = False
    has_border: bool = True
    first: int = 0
    last: int | None = None
    act: str = "fprelu"
    shortcut: str = "none"  # "none", "own" or "out": the output buffer itself
    pieces: bool = False  # before the shortcut
    after: bool = False
    threshold: bool = False
    out: bool = True
    codes: bool = True
    gap: int = 0  # unused elements after each position
    dyadic: bool = True  # every step of the epilogue is exact, fused or not
    seed: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """Output rows and columns."""
        image, kernel, stride, padding = (self.h, self.w), self.kernel, self.stride, self.padding
        high, wide = ((image[k] + 2 * padding[k] - kernel[k]) // stride[k] + 1 + self.extra[k] for k in range(2))
        return high, wide

    @property
    def rows(self) -> tuple[int, int]:
        return self.first, self.size[0] if self.last is None else self.last

    @property
    def panels(self) -> int:
        return sum(-(-len(group) // PANEL) for group in groups_of(self.outputs, self.groups))

    def geometry(self) -> dict:
        names = ("groups", "kernel", "stride", "padding", "size", "rows")
        return {"channels": self.outputs} | {name: getattr(self, name) for name in names}


@st.composite
def cases(draw, most_inputs: int, most_outputs: int = 80) -> Case:
    # Hypothesis likes to repeat parts of an example; options by lot meet all sizes.
    seed = draw(st.integers(0, 2**32 - 1))
    lot = np.random.default_rng(seed)
    kernel = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    padding = int(lot.integers(0, kernel[0])), int(lot.integers(0, kernel[1]))
    inputs, outputs = draw(st.integers(1, most_inputs)), draw(st.integers(1, most_outputs))
    groups = 1 if lot.random() < 0.4 else int(lot.integers(1, min(inputs, outputs, 7) + 1))
    case = Case(
        inputs=inputs,
        outputs=outputs,
        h=max(draw(st.integers(1, 9)), kernel[0] - 2 * padding[0]),
        w=max(draw(st.integers(1, 30)), kernel[1] - 2 * padding[1]),
        kernel=kernel,
        stride=(int(lot.integers(1, 4)), int(lot.integers(1, 4))),
        padding=padding,
        groups=groups,
        zero_one=bool(lot.integers(2)),
        has_border=bool(lot.integers(2)),
        act=str(lot.choice(ACTS)),
        shortcut=str(lot.choice(["none", "own", "out"])),
        pieces=bool(lot.random() < 0.3),
        after=bool(lot.random() < 0.3),
        threshold=bool(lot.random() < 0.3),
        out=bool(lot.random() < 0.8),
        codes=bool(lot.random() < 0.8),
        gap=int(lot.integers(4)),
        seed=seed,
    )
    # One window more, as ceil_mode gives: it must still touch the image.
    more = [
        int(case.size[k] * case.stride[k] - padding[k] < (case.h, case.w)[k] and lot.random() < 0.3) for k in range(2)
    ]
    case = replace(case, extra=(more[0], more[1]))
    first = int(lot.integers(case.size[0]))
    return replace(case, first=first, last=int(lot.integers(first, case.size[0])) + 1)


class Ends:
    """The epilogue of a case: what goes in, and the whole arrays that results are parts of."""

    def __init__(self, case: Case, *, joined: bool = False) -> None:
        rng = np.random.default_rng(case.seed + 1)
        channels, (first, last), columns = case.outputs, case.rows, case.size[1]
        if case.dyadic:
            numbers = {
                "scale": rng.choice([-2.0, -0.5, 0.125, 0.25, 1.0], channels),
                "shift": rng.integers(-64, 64, channels) / 8,
                "left": rng.integers(-8, 8, channels) / 4,
                "right": rng.integers(-8, 8, channels) / 4,
                "first_left": rng.choice([-1.0, 0.0, 0.25, 2.0], channels),
                "first_right": rng.choice([-0.5, 0.0, 1.0, 4.0], channels),
                "after": rng.integers(-8, 8, channels) / 4,
                "threshold": rng.integers(-64, 64, channels) / 8,
            }
            shortcut = rng.integers(-64, 64, (last - first, columns, channels)) / 8
        else:
            names = ("scale", "shift", "left", "right", "first_left", "first_right", "after", "threshold")
            numbers = {name: rng.standard_normal(channels) for name in names}
            shortcut = rng.standard_normal((last - first, columns, channels))
        if not case.pieces:
            del numbers["first_left"], numbers["first_right"]
        if not case.after:
            del numbers["after"]
        if not case.threshold:
            del numbers["threshold"]
        self.numbers = {name: values.astype(np.float32) for name, values in numbers.items()}
        self.shortcut = shortcut.astype(np.float32)
        self.whole_out = np.full((last - first, columns + 1, channels + case.gap), GUARD)
        panels = -(-channels // PANEL) if joined else case.panels  # of neighbouring channels, or of each group's
        self.whole_codes = np.full((last - first, columns + 1, panels + case.gap), CODE_GUARD)
        self.out = self.whole_out[:, :columns, :channels]
        self.codes = self.whole_codes[:, :columns, :panels]
        if case.shortcut == "out":
            self.out[...] = self.shortcut
        self.case, self.joined = case, joined

    def given(self) -> dict:
        case = self.case
        shortcut = {"none": None, "own": self.shortcut, "out": self.out}[case.shortcut]
        written = {"out": self.out if case.out else None, "codes": self.codes if case.codes else None}
        return self.numbers | {"act": case.act, "low": -1.5, "high": 2.25, "shortcut": shortcut} | written

    def expected(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Results, guards and all, by NumPy: of sums [rows][columns][channels]."""
        case, numbers = self.case, self.numbers
        y = numbers["scale"] * sums.astype(np.float32) + numbers["shift"]
        if case.pieces:
            y = y * np.where(y > 0, numbers["first_right"], numbers["first_left"])
        if case.shortcut != "none":
            y = y + self.shortcut
        slopes = {"relu": (0, 1), "prelu": (numbers["left"], 1), "fprelu": (numbers["left"], numbers["right"])}
        if case.act == "clamp":
            y = np.clip(y, np.float32(-1.5), np.float32(2.25))
        elif case.act != "none":
            left, right = slopes[case.act]
            y = np.where(y > 0, right * y, left * y)
        y = (y + numbers.get("after", 0)).astype(np.float32)
        fresh = Ends(case)
        if case.out:
            fresh.out[...] = y
        if case.codes:
            fresh.codes[...] = panel_codes(y > numbers.get("threshold", 0), case)
        return fresh.whole_out, fresh.whole_codes

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.joined:
            return self.whole_out, self.whole_codes
        fresh = Ends(self.case)  # the same bits in panels of each group
        signs = (self.codes[..., None] >> np.arange(PANEL, dtype=np.uint32) & 1).reshape(*self.codes.shape[:2], -1)
        if self.case.codes:
            assert not signs[..., self.case.outputs :].any()
            fresh.codes[...] = panel_codes(signs[..., : self.case.outputs], self.case)
        self.codes[...] = CODE_GUARD
        assert (self.whole_codes == CODE_GUARD).all()
        return self.whole_out, fresh.whole_codes


def check_copies(case: Case, seed: int, run: Callable[[dict], None], *, joined: bool = False) -> None:
    """Each copy of the codes is what its own thresholds give by themselves; nothing else is written."""
    rng = np.random.default_rng(seed)
    thresholds = rng.integers(-64, 64, (int(rng.integers(2, 5)), case.outputs)).astype(np.float32) / 8
    case = replace(case, threshold=True, codes=True)
    ends = Ends(case, joined=joined)
    panels = ends.codes.shape[2]
    codes = np.full((*ends.whole_codes.shape[:2], len(thresholds) * panels + case.gap), CODE_GUARD)
    want = codes.copy()
    written = codes[:, : ends.codes.shape[1], : len(thresholds) * panels]
    run(ends.given() | {"threshold": thresholds.ravel(), "copies": len(thresholds) - 1, "codes": written})
    for number, threshold in enumerate(thresholds):
        alone = Ends(case, joined=joined)
        run(alone.given() | {"threshold": threshold})
        want[:, : ends.codes.shape[1], number * panels : (number + 1) * panels] = alone.codes
        np.testing.assert_array_equal(ends.whole_out, alone.whole_out)
    np.testing.assert_array_equal(codes, want)


def panel_codes(signs: np.ndarray, case: Case) -> np.ndarray:
    """[..., channels] of bool to [..., panels]: each group from a panel of its own on."""
    panels = []
    for group in groups_of(case.outputs, case.groups):
        for first in range(group.start, group.stop, PANEL):
            part = signs[..., first : min(first + PANEL, group.stop)]
            panels.append((part * (1 << np.arange(part.shape[-1], dtype=np.uint64))).sum(-1))
    return np.stack(panels, axis=-1).astype(np.uint32)


def windows(image: np.ndarray, case: Case) -> np.ndarray:
    """[y][x][ky][kx][channel] of an image [h][w][channel] with zeros around, for the case's rows."""
    (kh, kw), (sy, sx), (py, px), (oh, ow) = case.kernel, case.stride, case.padding, case.size
    below, beside = max(0, (oh - 1) * sy + kh - py - case.h), max(0, (ow - 1) * sx + kw - px - case.w)
    padded = np.pad(image, ((py, below), (px, beside), (0, 0)))
    return np.stack(
        [np.stack([padded[y * sy : y * sy + kh, x * sx : x * sx + kw] for x in range(ow)]) for y in range(*case.rows)]
    )


def convolve(image: np.ndarray, weights: list[np.ndarray], case: Case) -> np.ndarray:
    """[rows][columns][outputs]: each group's [out][in][kh][kw] weights on its own channels."""
    taps = windows(image, case)
    parts = [
        np.einsum("yxklc,ockl->yxo", taps[..., inputs.start : inputs.stop], weight)
        for inputs, weight in zip(groups_of(case.inputs, case.groups), weights, strict=True)
    ]
    return np.concatenate(parts, axis=-1)


def assert_same(got: tuple[np.ndarray, np.ndarray], want: tuple[np.ndarray, np.ndarray]) -> None:
    """Whole buffers: a stray write is as wrong as a wrong value."""
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
