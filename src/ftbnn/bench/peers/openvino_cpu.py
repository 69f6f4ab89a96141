"""OpenVINO on the CPU: ResNet-18 in fp32 and int8, and the same binary network."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import openvino as ov
from openvino.preprocess import PrePostProcessor

from ftbnn.bench.onednn import held_to
from ftbnn.bench.peers.openvino_binary import binary_model
from ftbnn.bench.peers.resnet18 import ResNet18
from ftbnn.bench.pixels import Images, is_pixels, mean_and_std
from ftbnn.bench.rounds import Contender, Maker
from ftbnn.bench.subject import Subject


def contenders(subjects: list[Subject], resnet: ResNet18, threads: int, images: Images) -> Iterator[Maker]:
    for precision in ("fp32", "int8"):
        yield partial(_resnet, resnet, precision, threads, images)
    for subject in subjects:
        yield partial(_binary, subject, threads, images)


def _resnet(resnet: ResNet18, precision: str, threads: int, images: Images) -> Contender:
    model = ov.Core().read_model(getattr(resnet, precision))
    model.reshape([len(images), *resnet.shape])
    return _contender(model, resnet.name, precision, threads, images)


def _binary(subject: Subject, threads: int, images: Images) -> Contender:
    return _contender(binary_model(subject.graph, len(images)), subject.name, "binary", threads, images)


def compile_model(model: Any, threads: int) -> Any:
    """As a user would for one request at a time. Left to itself OpenVINO computes fp32 networks in bf16."""
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    return ov.Core().compile_model(model, "CPU", settings)


def with_pixels(model: Any) -> Any:
    """The same with OpenVINO's own preprocessing at its start."""
    mean, std = mean_and_std(model.input().shape[1])
    steps = PrePostProcessor(model)
    steps.input().tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    steps.input().model().set_layout(ov.Layout("NCHW"))
    numbers = [[255 * number for number in numbers] for numbers in (mean, std)]
    steps.input().preprocess().convert_element_type(ov.Type.f32).mean(numbers[0]).scale(numbers[1])
    return steps.build()


def _contender(model: Any, name: str, precision: str, threads: int, images: Images) -> Contender:
    model = with_pixels(model) if is_pixels(images) else model
    request = compile_model(model, threads).create_infer_request()
    request.set_input_tensor(ov.Tensor(images.copy()))
    return Contender(name, "openvino", precision, held_to(), threads, len(images), request.infer)
