"""ONNX Runtime: ResNet-18 in fp32 and int8."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import onnx
import onnxruntime

from ftbnn.bench.peers.resnet18 import ResNet18
from ftbnn.bench.pixels import Images, is_pixels, with_pixels
from ftbnn.bench.rounds import Contender, Maker
from ftbnn.bench.subject import Subject


def contenders(_: list[Subject], resnet: ResNet18, threads: int, images: Images) -> Iterator[Maker]:
    for precision in ("fp32", "int8"):
        yield partial(_contender, resnet, precision, threads, images)


def _contender(resnet: ResNet18, precision: str, threads: int, images: Images) -> Contender:
    path: Path = getattr(resnet, precision)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    model = with_pixels(onnx.load(path)).SerializeToString() if is_pixels(images) else path
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: images}
    return Contender(
        resnet.name, "onnxruntime", precision, "auto", threads, len(images), lambda: session.run(None, feed)
    )
