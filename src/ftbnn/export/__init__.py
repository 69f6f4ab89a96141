"""A torch module in, a .ftbnn file out: traced, converted, folded, packed, written."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.export.convert import convert
from ftbnn.export.fold import fold
from ftbnn.export.graph import Graph
from ftbnn.export.onnx import export_onnx
from ftbnn.export.trace import ExportError, trace
from ftbnn.export.write import InputInfo, write

__all__ = ["ExportError", "Report", "build_graph", "export", "export_onnx"]

FP32_BYTES = 4


@dataclass(frozen=True)
class Report:
    """What an export made: the file's size beside that of the module's real-valued state in fp32."""

    path: Path
    size_bytes: int
    fp32_bytes: int
    operators: int


def build_graph(module: nn.Module, example_input: Tensor) -> Graph:
    """The module's operators as a file holds them. Raises ExportError for what cannot be converted."""
    return fold(convert(*trace(module, example_input)))


def export(
    module: nn.Module,
    example_input: Tensor,
    path: Path | str,
    *,
    name: str = "",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    class_names: Sequence[str] = (),
    resize: int | None = None,
) -> Report:
    """Writes `module`, in evaluation mode, for images like `example_input` (N, channels, height, width).

    `mean` and `std` (default 0 and 1) are those of images on the scale 0 to 1; `resize` is the length of a photo's
    shorter side before the centre crop (default: the image's longer side, so that the crop always fits).
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
    state = [*module.parameters(), *module.buffers()]
    return Report(
        path=Path(path),
        size_bytes=write(graph, Path(path), info),
        fp32_bytes=FP32_BYTES * sum(tensor.numel() for tensor in state if tensor.is_floating_point()),
        operators=len(graph.operators),
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
