"""Latency of several ways to compute the same thing, in turns, so that a slow moment of the machine meets all alike."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from ftbnn.errors import UserError
from ftbnn.export import export_onnx
from ftbnn.runtime import load

ROUNDS = 30
WARM_UP = 3


def least_ms(ways: dict[str, Callable[[], Any]], *, rounds: int = ROUNDS) -> dict[str, float]:
    """The least time of each way over the rounds, in milliseconds."""
    least = dict.fromkeys(ways, float("inf"))
    for turn in range(WARM_UP + rounds):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            if turn >= WARM_UP:
                least[name] = min(least[name], 1e3 * (time.perf_counter() - started))
    return least


def latency_ms(network: nn.Module, file: Path | None, shape: tuple[int, int, int]) -> dict[str, float]:
    """One image, one thread: the file in the native engine, the network in PyTorch and, if installed, ONNX Runtime."""
    image = torch.randn(1, *shape, generator=torch.Generator().manual_seed(0))
    with TemporaryDirectory() as folder, _one_thread(), torch.no_grad():
        ways: dict[str, Callable[[], Any]] = {}
        if file is not None:
            engine, array = load(file, threads=1), image.numpy()
            ways["native_ms"] = lambda: engine(array)
        ways["torch_ms"] = lambda: network(image)
        if find_spec("onnx") and find_spec("onnxruntime"):
            with suppress(UserError):  # a network that ONNX has no words for is timed without it
                ways["onnxruntime_ms"] = _onnxruntime(network, image, Path(folder) / "network.onnx")
        return least_ms(ways)


def _onnxruntime(network: nn.Module, image: torch.Tensor, path: Path) -> Callable[[], Any]:
    import onnxruntime

    export_onnx(network, image, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = {"input": np.ascontiguousarray(image.numpy())}
    return lambda: session.run(None, feed)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
