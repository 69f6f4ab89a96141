"""What is measured: a network by name, a training run or a .ftbnn file, always as a file the engine can open."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ftbnn.budget import count
from ftbnn.errors import UserError
from ftbnn.export import build_graph, export
from ftbnn.export.graph import Graph
from ftbnn.models import build, find
from ftbnn.nn import FPReLU, StemName
from ftbnn.runtime import load
from ftbnn.training.run import load_network

SMALL_IMAGE = 64  # up to here networks have the stem for small images


@dataclass(frozen=True)
class Subject:
    """A network under test. `network` and `graph` are None for a file, of which no PyTorch module is known."""

    name: str
    file: Path
    input_shape: tuple[int, int, int]
    outputs: int
    width: int | None
    has_random_weights: bool
    network: nn.Module | None = None
    graph: Graph | None = None
    fp32_bytes: int | None = None
    minimum_bytes: int | None = None  # binary weights as bits, every other parameter as a float32

    @property
    def size_bytes(self) -> int:
        return self.file.stat().st_size


@torch.no_grad()
def enliven(network: nn.Module) -> nn.Module:
    """Random numbers where a fresh network has zeros and ones: engines leave out what is trivial, and speed lies."""
    generator = torch.Generator().manual_seed(0)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            for numbers in (layer.weight, layer.running_var):
                numbers.uniform_(0.5, 1.5, generator=generator)
            for numbers in (layer.bias, layer.running_mean):
                numbers.normal_(0.0, 0.1, generator=generator)
        elif isinstance(layer, FPReLU):
            layer.left.uniform_(0.1, 0.4, generator=generator)
    return network.eval()


def open_subject(text: str, folder: Path, *, image_size: int | None, width: int | None) -> Subject:
    """The subject of that name, run directory, checkpoint or file; what must be written goes to `folder`."""
    path = Path(text)
    if path.suffix == ".ftbnn":
        if image_size is not None or width is not None:
            raise UserError(f"{path} has its own image size and width; leave --image-size and --width out")
        model = load(path, threads=1)
        outputs = model.output_shape[0] * model.output_shape[1] * model.output_shape[2]
        return Subject(model.name or path.stem, path, model.input_shape, outputs, None, has_random_weights=False)
    torch.manual_seed(0)
    if path.exists():
        if image_size is not None or width is not None:
            raise UserError(f"{path} has its own image size and width; leave --image-size and --width out")
        network, state = load_network(path)
        name, spec = state["model_spec"]["name"] or path.stem, state["spec"]
        if spec is None:
            raise UserError(f"{path} was trained on data of your own: export it and give the .ftbnn file")
        shape = (spec["channels"], spec["image_size"], spec["image_size"])
        width = state["model_spec"]["settings"].get("width")
    else:
        entry = find(text)
        side = entry.image_size if image_size is None else image_size
        if side < 1:
            raise UserError(f"--image-size must be 1 or more, not {side}")
        name, shape = text, (entry.in_channels, side, side)
        network = enliven(build(text, width=width, stem=stem_for(side) if entry.has_stems else None))
    example = torch.zeros(1, *shape)
    file = folder / f"{name}.ftbnn"
    report = export(network, example, file, name=name)
    graph = build_graph(network, example)
    return Subject(
        name,
        file,
        shape,
        graph.output.size,
        width,
        has_random_weights=not path.exists(),
        network=network,
        graph=graph,
        fp32_bytes=report.fp32_bytes,
        minimum_bytes=count(network, shape).packed_bytes,
    )


def stem_for(side: int) -> StemName:
    return "small" if side <= SMALL_IMAGE else "imagenet"
