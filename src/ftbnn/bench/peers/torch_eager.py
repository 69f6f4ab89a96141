"""PyTorch, eager: the binary network as it was trained, and ResNet-18 in fp32."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from ftbnn.bench.onednn import held_to
from ftbnn.bench.peers.resnet18 import ResNet18
from ftbnn.bench.pixels import Images, is_pixels, scale_and_shift
from ftbnn.bench.rounds import Contender, Maker
from ftbnn.bench.subject import Subject


def contenders(subjects: list[Subject], resnet: ResNet18, threads: int, images: Images) -> Iterator[Maker]:
    for subject in subjects:
        yield partial(_contender, subject.network, subject.name, "binary", threads, images)
    yield partial(_contender, resnet.network, resnet.name, "fp32", threads, images)


class FromPixels(nn.Module):
    """A network of normalised images as one of pixels."""

    def __init__(self, network: nn.Module, channels: int) -> None:
        super().__init__()
        self.network = network
        self.scale, self.shift = map(torch.from_numpy, scale_and_shift(channels))

    def forward(self, pixels: Tensor) -> Tensor:
        out: Tensor = self.network(torch.addcmul(self.shift, pixels.permute(0, 3, 1, 2).float(), self.scale))
        return out


def _contender(network: nn.Module, name: str, precision: str, threads: int, images: Images) -> Contender:
    network = network.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = torch.from_numpy(images)
    if is_pixels(images):
        network = FromPixels(network, images.shape[3])
    else:
        batch = batch.contiguous(memory_format=torch.channels_last)

    def call() -> None:
        torch.set_num_threads(threads)  # one number for the whole process, so each turn sets its own
        with torch.inference_mode():
            network(batch)

    return Contender(name, "torch", precision, held_to(), threads, len(images), call)
