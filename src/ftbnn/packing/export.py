"""A torch module in, a .ftbnn file out: converted, folded, packed, run natively and compared, written."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.files import write_atomically
from ftbnn.packing.convert import convert
from ftbnn.packing.fold import fold
from ftbnn.packing.graph import Graph
from ftbnn.packing.verify import Agreement, verify
from ftbnn.packing.write import InputInfo, encode

FP32_BYTES = 4
SAMPLES = 8


@dataclass(frozen=True)
class Report:
    """What an export made: the file's size beside that of the module's real-valued state in fp32, and how the engine's
    outputs compare with the module's."""

    path: Path
    size_bytes: int
    fp32_bytes: int
    operators: int
    agreement: Agreement


def build_graph(module: nn.Module, example_input: Tensor) -> Graph:
    """The module's operators as a file holds them. Raises ExportError for what cannot be converted."""
    return fold(convert(module, example_input))


def pack(
    module: nn.Module,
    example_input: Tensor,
    path: Path | str,
    *,
    samples: Tensor | None = None,
    name: str = "",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    class_names: Sequence[str] = (),
    resize: int | None = None,
) -> Report:
    """Writes `module`, in evaluation mode, for images like `example_input` (N, channels, height, width), once the
    engine has run the file's bytes on `samples` (default: a few random images) and given the module's outputs.

    `mean` and `std` are those of images on the scale 0 to 1; without them the file takes 8-bit images as x / 255.
    `resize` is the length of a photo's shorter side before the centre crop (default: the image's longer side).
    """
    graph = build_graph(module, example_input)
    channels, longer = graph.input.channels, max(graph.input.height, graph.input.width)
    info = InputInfo(
        name=name,
        mean=[0.0] * channels if mean is None else mean,
        std=[1.0] * channels if std is None else std,
        resize=longer if resize is None else resize,
        class_names=class_names,
    )
    _check(info, graph)
    if samples is None:
        noise = torch.randn(SAMPLES, *example_input.shape[1:], generator=torch.Generator().manual_seed(0))
        samples = noise.to(example_input)
    state = [*module.parameters(), *module.buffers()]
    data = encode(graph, info)
    agreement = verify(module, data, samples)
    write_atomically(Path(path), data)
    return Report(
        path=Path(path),
        size_bytes=len(data),
        fp32_bytes=FP32_BYTES * sum(tensor.numel() for tensor in state if tensor.is_floating_point()),
        operators=len(graph.operators),
        agreement=agreement,
    )


def _check(info: InputInfo, graph: Graph) -> None:
    channels, longer = graph.input.channels, max(graph.input.height, graph.input.width)
    if len(info.mean) != channels or len(info.std) != channels:
        raise UserError(f"images have {channels} channels; mean and std must have as many numbers")
    if not all(math.isfinite(number) for number in (*info.mean, *info.std)) or min(info.std) <= 0:
        raise UserError(f"mean must be finite and std positive, not {list(info.mean)} and {list(info.std)}")
    if info.resize < longer:
        raise UserError(f"resize={info.resize} leaves photos smaller than the image of {longer} pixels")
    if info.class_names and len(info.class_names) != graph.output.size:
        raise UserError(f"{len(info.class_names)} class names do not fit {graph.output.size} outputs")
