"""ONNX Runtime: ResNet-18 in fp32 and int8."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from ftbnn.bench.peers.resnet18 import ResNet18
from ftbnn.bench.rounds import Contender, Maker
from ftbnn.bench.subject import Subject


def contenders(_: list[Subject], resnet: ResNet18, threads: int, images: NDArray[np.float32]) -> Iterator[Maker]:
    for precision in ("fp32", "int8"):
        yield partial(_contender, resnet, precision, threads, images)


def _contender(resnet: ResNet18, precision: str, threads: int, images: NDArray[np.float32]) -> Contender:
    path: Path = getattr(resnet, precision)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {"input": images}
    return Contender(
        resnet.name, "onnxruntime", precision, "auto", threads, len(images), lambda: session.run(None, feed)
    )
