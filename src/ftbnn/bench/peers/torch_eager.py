"""PyTorch, eager: the binary network as it was trained, and ResNet-18 in fp32."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ftbnn.bench.onednn import held_to
from ftbnn.bench.peers.resnet18 import ResNet18
from ftbnn.bench.rounds import Contender, Maker
from ftbnn.bench.subject import Subject


def contenders(subjects: list[Subject], resnet: ResNet18, threads: int, images: NDArray[np.float32]) -> Iterator[Maker]:
    for subject in subjects:
        yield partial(_contender, subject.network, subject.name, "binary", threads, images)
    yield partial(_contender, resnet.network, resnet.name, "fp32", threads, images)


def _contender(network: nn.Module, name: str, precision: str, threads: int, images: NDArray[np.float32]) -> Contender:
    network = network.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = torch.from_numpy(images).contiguous(memory_format=torch.channels_last)

    def call() -> None:
        torch.set_num_threads(threads)  # one number for the whole process, so each turn sets its own
        with torch.inference_mode():
            network(batch)

    return Contender(name, "torch", precision, held_to(), threads, len(images), call)
