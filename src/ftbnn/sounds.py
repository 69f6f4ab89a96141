"""A sound as a picture: what training and running do alike to a second of it. NumPy and the standard library only.

A WAV of any rate becomes an 8-bit grey picture, bands of pitch (the highest on top) over time:

1. one second: the loudest one of a longer sound; a shorter one has silence on both sides
2. `columns` frames, their middles evenly spread over the second, each as long as two of them, under Hann's window
3. the power in `rows` bands, triangles that overlap by half, evenly spread from 50 to 4000 Hz on the mel scale
4. decibels below the loudest band of the picture: 255 there, 0 at -80 and below

Bands are in Hz and frames in seconds, so that a sound of 8 kHz and the same one of 16 are the same picture: there is no
resampling. Loudness does not matter either.
"""

import wave
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ftbnn.errors import UserError, first_line
from ftbnn.text import line

ENDINGS = (".wav",)
LOW_HZ, HIGH_HZ = 50.0, 4000.0
LEAST_RATE, MOST_RATE = int(2 * HIGH_HZ), 1_000_000  # samples a second: the spectra of a damaged rate take gigabytes
MOST_BYTES = 4  # of a sample
RANGE_DB = 80.0
MOST_SECONDS = 600  # a small mistake must not take gigabytes
BIN_HZ = 4.0  # spectra are at least so fine: narrower than the narrowest band of 64
RECIPE = "one second as log-mel bands, 50 to 4000 Hz over time, -80 to 0 dB (ftbnn.sounds)"  # for cards


def read_wav(path: str | Path) -> tuple[NDArray[np.float32], int]:
    """The samples of a WAV file, all channels as one, from -1 to 1, and how many there are in a second."""
    name = line(str(path), 200)
    if Path(path).exists() and not Path(path).is_file():  # a pipe would block for ever
        raise UserError(f"{name} cannot be read as a sound: it is not a file")
    try:
        with wave.open(str(path), "rb") as file:
            channels, size, rate, count = file.getparams()[:4]
            if rate < LEAST_RATE:
                raise UserError(f"{name} has {rate} samples a second; {LEAST_RATE} are the fewest that hold 4 kHz")
            if rate > MOST_RATE:
                raise UserError(f"{name} has {rate} samples a second; more than {MOST_RATE} are not read")
            if size > MOST_BYTES:
                raise UserError(f"{name} has samples of {8 * size} bits; more than {8 * MOST_BYTES} are not read")
            if count > MOST_SECONDS * rate:
                raise UserError(f"{name} is longer than {MOST_SECONDS} seconds; cut out what is to be heard")
            data = file.readframes(count)
    except FileNotFoundError:
        raise UserError(f"no sound at {name}") from None
    except (wave.Error, EOFError, OSError, RuntimeError) as error:  # the last, of lengths that do not fit
        why = first_line(error) if str(error) else "it is damaged"
        raise UserError(f"{name} cannot be read as a sound (PCM in a WAV file): {why}") from error
    numbers = _numbers(data, size)
    samples = numbers[: len(numbers) // channels * channels].reshape(-1, channels).mean(1, dtype=np.float32)
    if not len(samples):
        raise UserError(f"{name} holds no sound")
    return samples, rate


def _numbers(data: bytes, size: int) -> NDArray[np.float32]:
    """PCM of 8 bits, which has its zero at 128, or of 16, 24 or 32 with a sign, as -1 to 1."""
    whole = np.frombuffer(data[: len(data) // size * size], np.uint8).reshape(-1, size)
    padded = np.zeros((len(whole), 4), np.uint8)  # the number's bytes are the upper ones of 32 bits
    padded[:, 4 - size :] = whole ^ 128 if size == 1 else whole
    numbers: NDArray[np.float32] = padded.view("<i4")[:, 0].astype(np.float32)
    return np.ldexp(numbers, -31)


def picture(samples: NDArray[Any], rate: int, *, rows: int, columns: int) -> NDArray[np.uint8]:
    """(rows, columns): the sound as the module says."""
    if not LEAST_RATE <= rate <= MOST_RATE or not len(samples):
        raise UserError(f"a sound has samples, {LEAST_RATE} to {MOST_RATE} a second, not {len(samples)} at {rate}")
    second = _second(np.asarray(samples, np.float32), rate)
    length = 2 * rate // columns
    window = np.hanning(length + 2)[1:-1]
    starts = ((np.arange(columns) + 0.5) * rate / columns).astype(int)  # in the padded second: half a frame to the left
    padded = np.pad(second, (length // 2, length))
    frames = padded[starts[:, None] + np.arange(length)] * window
    points = 1 << max(length, int(rate / BIN_HZ)).bit_length()
    power = np.abs(np.fft.rfft(frames, points)) ** 2 / (points * np.square(window).sum())
    # Not a product of NumPy's: its threads would wait for each other over so small a one, thousands of times.
    bands = np.einsum("tf,fb->tb", power, _bands(rows, points, rate))
    loudest = bands.max()
    if loudest <= 0:
        return np.zeros((rows, columns), np.uint8)
    below = 10 * np.log10(np.maximum(bands / loudest, 1e-12))
    grey = np.rint(255 * np.clip(1 + below / RANGE_DB, 0, 1)).astype(np.uint8)
    return np.ascontiguousarray(grey.T[::-1])


def _second(samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    if len(samples) <= rate:
        missing = rate - len(samples)
        return np.pad(samples, (missing // 2, missing - missing // 2))
    energy = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    start = int(np.argmax(energy[rate:] - energy[:-rate]))
    return samples[start : start + rate]


@cache
def _bands(rows: int, points: int, rate: int) -> NDArray[np.float64]:
    """(frequencies, rows): the share of each band in the power of each frequency."""
    low, high = (2595 * np.log10(1 + hz / 700) for hz in (LOW_HZ, HIGH_HZ))
    corners = 700 * (10 ** (np.linspace(low, high, rows + 2) / 2595) - 1)
    frequencies = np.arange(points // 2 + 1) * rate / points
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    rising = (frequencies[:, None] - left) / (middle - left)
    falling = (right - frequencies[:, None]) / (right - middle)
    shares: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
    return shares
