"""The integer stem: tile kernels against the reference, the reference against exact arithmetic."""

import numpy as np
import pytest
from arrays import aligned
from hypothesis import given, settings
from hypothesis import strategies as st

from ftbnn import _native

kernels = _native.kernels
TILES = ["amx_emulated", *(["amx"] if kernels.trap_tiles() else [])] if "avx512" in _native.isas() else []
PANEL, LARGEST = 32, 127 * 65536 + 127 * 256 + 127
GUARD = np.float32(-12345.0)

every_isa = pytest.mark.parametrize("isa", TILES)
thorough = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def slices(weights: np.ndarray) -> np.ndarray:
    """[depth][PANEL] integers to the kernels' bytes."""
    blocks = weights.reshape(-1, 16, 4, 2, 16).transpose(0, 3, 1, 4, 2)  # [depth / 64][half][dword][channel][byte]
    digits = []
    for _ in range(3):
        digits.append((blocks + 128) % 256 - 128)
        blocks = (blocks - digits[-1]) // 256
    assert (blocks == 0).all()
    return aligned(np.stack(digits).astype(np.int8).ravel())


def case(seed: int) -> tuple[np.ndarray, dict]:
    """Weights as integers, and the arguments of a row; scales are powers of two, so that fusing changes nothing."""
    rng = np.random.default_rng(seed)
    width, channels, depth = int(rng.integers(1, 80)), int(rng.integers(1, PANEL + 1)), 64 * int(rng.integers(1, 4))
    weights = rng.integers(-LARGEST, LARGEST, (depth, PANEL), endpoint=True)
    patches = rng.integers(-128, 128, (-(-width // 16) * 16, depth))
    if rng.random() < 0.2:
        weights, patches = np.full_like(weights, LARGEST), np.full_like(patches, -128)
    weights[:, channels:] = 0
    scales = np.zeros((4, PANEL), np.float32)
    scales[0] = 2.0 ** -rng.integers(8, 40, PANEL)
    scales[2:] = rng.standard_normal((2, PANEL))
    return weights, {
        "patches": aligned(patches.astype(np.int8)),
        "weights": slices(weights),
        "width": width,
        "channels": channels,
        "act": int(rng.integers(4)),
        "scales": scales,
        "offset": (rng.standard_normal((3, PANEL)) * 100).astype(np.float32),
        "border": rng.integers(0, 3, width, np.uint8),
        "shortcut": rng.standard_normal((width, channels)).astype(np.float32) if rng.integers(2) else None,
    }


def run(isa: str, arguments: dict) -> tuple[np.ndarray, np.ndarray]:
    out = np.full((arguments["width"], arguments["channels"] + 2), GUARD)
    codes = np.full(arguments["width"] + 1, 0xDEADBEEF, np.uint32)
    kernels.sliced_row(isa, **arguments, out=out[:, 1:-1], codes=codes[:-1])
    return out, codes


@every_isa
@given(seed=seeds)
@thorough
def test_tiles_equal_the_reference(isa, seed):
    _, arguments = case(seed)
    for got, want in zip(run(isa, arguments), run("reference", arguments), strict=True):
        np.testing.assert_array_equal(got, want)


@given(seeds)
@thorough
def test_the_reference_rounds_three_times(seed):
    weights, arguments = case(seed)
    arguments |= {"act": 0, "shortcut": None}
    width, channels = arguments["width"], arguments["channels"]
    patches = arguments["patches"][:width].astype(np.int64)
    acc = (patches @ weights)[:, :channels]
    scale, offset = arguments["scales"][0, :channels], arguments["offset"][arguments["border"], :channels]
    exact = acc * scale.astype(np.float64) + offset
    low = 257 * 128 * np.abs(patches).sum(1, keepdims=True) * scale  # what the two lower slices may add up to
    bound = 2.0**-24 * (low + np.abs(acc * scale) + np.abs(exact)) * 1.001
    out, codes = run("reference", arguments)
    assert (np.abs(out[:, 1:-1] - exact) <= bound).all()
    assert (out[:, [0, -1]] == GUARD).all()
    signs = (out[:, 1:-1] > 0) @ (1 << np.arange(channels, dtype=np.int64))
    np.testing.assert_array_equal(codes, [*signs, 0xDEADBEEF])


@pytest.mark.parametrize("isa", [*TILES[:1], "reference"])
@given(seed=seeds)
@thorough
def test_patches_are_windows(isa, seed):
    rng = np.random.default_rng(seed)
    kh, run_bytes, step, width = (int(rng.integers(1, top)) for top in (8, 80, 12, 20))
    pixels = rng.integers(-128, 128, (kh, (width - 1) * step + run_bytes)).astype(np.int8)
    depth = -(-kh * run_bytes // 64) * 64
    flat = aligned(np.full((width + 1) * depth, 77, np.int8))
    patches = flat.reshape(width + 1, depth)[:width]
    kernels.patch_row(isa, pixels, run=run_bytes, step=step, width=width, patches=patches)
    for x in range(width):
        np.testing.assert_array_equal(patches[x, : kh * run_bytes], pixels[:, x * step :][:, :run_bytes].ravel())
    assert (flat[-depth:] == 77).all()
