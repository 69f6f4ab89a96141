"""What is measured: a network by name, a training run or a .ftbnn file, always as a file the engine can open."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ftbnn.bench.pixels import mean_and_std
from ftbnn.budget import count
from ftbnn.errors import UserError
from ftbnn.models import build, find
from ftbnn.nn import FPReLU, Layer, stem_for
from ftbnn.packing import pack
from ftbnn.packing.graph import BConv, Graph, RoundedConv
from ftbnn.packing.graph_module import GraphModule
from ftbnn.packing.read import read_graph
from ftbnn.runtime import load
from ftbnn.training.run import load_run
from ftbnn.zoo import packed_file

FP32_BYTES = 4


@dataclass(frozen=True)
class Subject:
    """A network under test: its file, and the same as a PyTorch module and as a list of operators."""

    name: str
    file: Path
    input_shape: tuple[int, int, int]
    outputs: int
    width: int | None  # of the first stage, and so of the ResNet-18 beside it; None: the usual one
    has_random_weights: bool
    network: nn.Module  # its own, or of a file the operators one by one
    graph: Graph
    fp32_bytes: int
    minimum_bytes: int  # binary weights as bits, every other number as a float32

    @property
    def size_bytes(self) -> int:
        return self.file.stat().st_size


@torch.no_grad()
def enliven(network: nn.Module, image: Sequence[int] | None = None) -> nn.Module:
    """Random numbers where a fresh network has zeros and ones: engines leave out what is trivial, and speed lies.
    With the shape of an image, BatchNorms know what they read: products of features grow beyond bounds otherwise."""
    generator = torch.Generator().manual_seed(0)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            # Branches weigh less than what they are added to, or one sign that turns with the order of a sum is an
            # answer of its own in the end, and the file's check calls it wrong.
            layer.weight.uniform_(0.02, 0.06, generator=generator)
            layer.running_var.uniform_(0.5, 1.5, generator=generator)
            for numbers in (layer.bias, layer.running_mean):
                numbers.normal_(0.0, 0.1, generator=generator)
        elif isinstance(layer, FPReLU):
            layer.left.uniform_(0.1, 0.4, generator=generator)
        elif isinstance(layer, Layer) and not layer.has_binary_form:  # thresholds, slopes, scales
            for parameter in layer.parameters(recurse=False):
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    if norms and image is not None:
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 1.0
        network.train()(torch.randn(2, *image, generator=generator))
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    return network.eval()


def open_subject(
    text: str,
    folder: Path,
    *,
    image_size: int | None,
    width: int | None,
    stem_bits: int | None = None,
    method: str | None = None,
) -> Subject:
    """The subject of that name, run directory, checkpoint, file or `zoo:NAME`; what is written goes to `folder`."""
    file, path = packed_file(text), Path(text)
    if file is not None or path.exists():
        if image_size is not None:
            raise UserError(f"{text} has an image size of its own")
        if stem_bits is not None:
            raise UserError(f"{text} has a stem of its own; its bits can be chosen of networks by name")
        if method is not None:
            raise UserError(f"{text} is made binary already; a method can be chosen of networks by name")
    if file is not None:
        return _of_file(file, width)
    torch.manual_seed(0)
    if path.exists():
        run = load_run(path)
        network, name, spec = run.network, run.name, run.spec
        if spec is None:
            raise UserError(f"{path} was trained on data of your own: export it and give the .ftbnn file")
        shape = (spec.channels, spec.image_size, spec.image_size)
        width = width or run.state["model_spec"]["settings"].get("width")
    else:
        entry = find(text)
        side = entry.image_size if image_size is None else image_size
        if side < 1:
            raise UserError(f"the image size must be 1 or more, not {side}")
        name, shape = text if method is None else f"{text} {method}", (entry.in_channels, side, side)
        stem = stem_for(side) if entry.has_stems else None
        fresh = build(text, width=width, stem=stem, stem_bits=stem_bits, method=method, image_size=side)
        network = enliven(fresh, shape)
    example = torch.zeros(1, *shape)
    file = folder / f"{Path(name).name}.ftbnn"
    mean, std = mean_and_std(shape[0])
    report = pack(network, example, file, name=name, mean=mean, std=std)
    graph = read_graph(file)
    return Subject(
        name=name,
        file=file,
        input_shape=shape,
        outputs=graph.output.size,
        width=width,
        has_random_weights=not path.exists(),
        network=network,
        graph=graph,
        fp32_bytes=report.fp32_bytes,
        minimum_bytes=count(network, shape).packed_bytes,
    )


def _of_file(path: Path, width: int | None) -> Subject:
    model = load(path, threads=1)
    graph = read_graph(path)
    network = GraphModule(graph).eval()
    numbers = sum(tensor.numel() for tensor in (*network.parameters(), *network.buffers()))
    binary = sum(part.size for operator in graph.operators if isinstance(operator, BConv) for part in operator.positive)
    whole = [operator for operator in graph.operators if isinstance(operator, RoundedConv)]
    saved = sum(part.size * (4 - each.bits // 8) for each in whole for part in each.integers)
    saved -= FP32_BYTES * sum(each.unit.size for each in whole)
    return Subject(
        name=model.name or path.stem,
        file=path,
        input_shape=model.input_shape,
        outputs=graph.output.size,
        width=width,
        has_random_weights=False,
        network=network,
        graph=graph,
        fp32_bytes=FP32_BYTES * numbers,
        minimum_bytes=FP32_BYTES * (numbers - binary) + binary // 8 - saved,
    )
