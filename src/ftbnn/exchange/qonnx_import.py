"""A QONNX file in, a .ftbnn file out: read, lowered, run natively, compared with its own nodes, written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ftbnn.errors import UserError
from ftbnn.exchange.qonnx_check import Agreement, check
from ftbnn.exchange.qonnx_lower import Lowered, lower
from ftbnn.exchange.qonnx_model import OnnxModel, parse, read_bytes
from ftbnn.exchange.qonnx_proto import may_be_onnx
from ftbnn.exchange.tflite_flat import is_tflite
from ftbnn.exchange.tflite_model import parse_tflite
from ftbnn.files import MAGIC, write_atomically
from ftbnn.packing.write import METADATA, InputInfo, encode
from ftbnn.photos import picture_format

SAMPLES = 16
MOST_NUMBERS = 1 << 22  # of the largest tensor over all samples: the nodes are run in NumPy


@dataclass(frozen=True)
class Imported(Agreement):
    """What an import made, and how the engine compares with the network's own nodes."""

    path: Path
    size_bytes: int
    source_bytes: int
    operators: int
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"path": str(self.path), "notes": list(self.notes)}


def import_network(
    source: str | Path | bytes,
    path: str | Path,
    *,
    name: str = "",
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    class_names: Sequence[str] | None = None,
    resize: int | None = None,
    samples: NDArray[np.float32] | None = None,
) -> Imported:
    """Writes the network of a QONNX or .tflite file (or its bytes), once the engine has given what its nodes give.

    `mean` and `std` are those of images on the scale 0 to 1; without them, and where the file does not say them, 8-bit
    images enter as x / 255. `samples` are inputs (N, ...) as the network takes them, by default random pixels.
    """
    data = source if isinstance(source, bytes) else read_bytes(Path(source))
    model = _parse(data)
    lowered = lower(model)
    given = "" if isinstance(source, bytes) else Path(source).stem
    name = name or model.metadata.get(f"{METADATA}name", given)
    info = _info(model, lowered, name=name, mean=mean, std=std, class_names=class_names, resize=resize)
    file = encode(lowered.graph, info)
    if samples is None:
        samples = _random(lowered, info)
    if samples.shape[1:] != lowered.shape or not len(samples):
        raise UserError(f"samples must have the shape (N, {', '.join(map(str, lowered.shape))}), not {samples.shape}")
    agreement = check(model, lowered, info, samples, lambda x: file_images(lowered, x))
    write_atomically(Path(path), file)
    return Imported(
        **vars(agreement),
        path=Path(path),
        size_bytes=len(file),
        source_bytes=len(data),
        operators=len(lowered.graph.operators),
        notes=lowered.notes,
    )


import_qonnx = import_network  # its name from when there was but one format


def _parse(data: bytes) -> OnnxModel:
    if not data:
        raise UserError("cannot import an empty file")
    if is_tflite(data):
        return parse_tflite(data)
    if data.startswith(MAGIC):
        raise UserError("this is a .ftbnn file, which needs no import: predict, eval and inspect take it")
    if kind := picture_format(data):
        raise UserError(f"this is a {kind} picture, no network: predict takes it")
    if not may_be_onnx(data):
        raise UserError("this is no network: it begins neither as an ONNX nor as a TensorFlow Lite file does")
    return parse(data)


def _info(
    model: OnnxModel,
    lowered: Lowered,
    *,
    name: str,
    mean: float | Sequence[float] | None,
    std: float | Sequence[float] | None,
    class_names: Sequence[str] | None,
    resize: int | None,
) -> InputInfo:
    """What is said, or what an export of ours left in the file."""
    start, told = lowered.graph.input, model.metadata
    longer = max(start.height, start.width)
    try:
        means = _numbers(mean, told.get(f"{METADATA}mean"), 0.0, start.channels)
        deviations = _numbers(std, told.get(f"{METADATA}std"), 1.0, start.channels)
        side = int(told.get(f"{METADATA}resize", longer)) if resize is None else resize
    except ValueError:
        raise UserError("mean, std and resize must be numbers") from None
    names = [it for it in told.get(f"{METADATA}classes", "").split("\n") if it] if class_names is None else class_names
    if len(means) != start.channels or len(deviations) != start.channels:
        raise UserError(f"images have {start.channels} channels; mean and std must have one number, or as many")
    if not all(map(np.isfinite, (*means, *deviations))) or min(deviations) <= 0:
        raise UserError(f"mean must be finite and std positive, not {means[:4]} and {deviations[:4]}")
    if not longer <= side <= 2**15:
        raise UserError(f"resize={side} does not fit images of {longer} pixels")
    if names and len(names) != lowered.graph.output.size:
        raise UserError(f"{len(names)} class names do not fit {lowered.graph.output.size} outputs")
    return InputInfo(name, means, deviations, side, names)


def _numbers(said: float | Sequence[float] | None, told: str | None, default: float, channels: int) -> list[float]:
    if said is None:
        said = [float(number) for number in told.split()] if told else default
    given = [float(said)] if isinstance(said, int | float) else [float(number) for number in said]
    return given * channels if len(given) == 1 else given


def _random(lowered: Lowered, info: InputInfo) -> NDArray[np.float32]:
    """Pixels as photos have them, half of them in patches, normalised as the file says."""
    random = np.random.default_rng(0)
    start = lowered.graph.input
    largest = max(value.size for value in (start, *(operator.output for operator in lowered.graph.operators)))
    count = min(SAMPLES, max(2, MOST_NUMBERS // largest))
    pixels = random.integers(0, 256, (count, start.channels, start.height, start.width))
    for k in range(1, count, 2):  # neighbours that are alike
        rows, columns = np.arange(start.height) // 4 * 4, np.arange(start.width) // 4 * 4
        pixels[k] = pixels[k][:, rows][:, :, columns]
    mean, std = (np.array(numbers, np.float32)[:, None, None] for numbers in (info.mean, info.std))
    images = ((pixels / np.float32(255)).astype(np.float32) - mean) / std
    dims = [lowered.shape[k] for k in lowered.layout]
    back = [0, *(int(k) + 1 for k in np.argsort(lowered.layout))]
    return np.ascontiguousarray(images.astype(np.float32).reshape(count, *dims).transpose(back))


def file_images(lowered: Lowered, x: NDArray[Any]) -> NDArray[np.float32]:
    """Inputs of the network as the file takes them: (N, channels, height, width)."""
    start = lowered.graph.input
    moved = x.transpose([0, *(axis + 1 for axis in lowered.layout)])
    return np.ascontiguousarray(moved.reshape(len(x), start.channels, start.height, start.width), np.float32)
