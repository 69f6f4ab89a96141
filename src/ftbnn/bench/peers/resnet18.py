"""The network people run today, as ONNX: real-valued ResNet-18, and the same in int8.

The int8 form is ONNX Runtime's static quantization: QDQ, weights per channel, calibrated on random images, which is
enough for speed. Its numbers are random too; no accuracy is claimed.
"""

import logging
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ftbnn.bench.subject import Subject, enliven
from ftbnn.errors import UserError
from ftbnn.models import ResNet
from ftbnn.nn import stem_for
from ftbnn.packing import export_onnx

NAME = "resnet18"
CALIBRATION_IMAGES = 8


class ResNet18:
    """Made once, on demand, for the images of `subject`; the files go to `folder`."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.shape, self.outputs, self.folder = subject.input_shape, subject.outputs, folder
        self.width = subject.width or 64
        self.name = NAME if self.width == 64 else f"{NAME} width {self.width}"

    @cached_property
    def network(self) -> nn.Module:
        channels, height, _ = self.shape
        torch.manual_seed(0)
        network = ResNet(layers=18, width=self.width, classes=self.outputs, in_channels=channels, stem=stem_for(height))
        return enliven(network)

    @cached_property
    def fp32(self) -> Path:
        path = self.folder / "resnet18-fp32.onnx"
        export_onnx(self.network, torch.zeros(1, *self.shape), path)
        return path

    @cached_property
    def int8(self) -> Path:
        try:
            from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        except ImportError as error:
            raise UserError("no int8 rows: quantization needs onnxruntime") from error

        class Images(CalibrationDataReader):  # type: ignore[misc]
            def __init__(self, images: Iterator[np.ndarray[Any, Any]]) -> None:
                self.images = images

            def get_next(self) -> dict[str, np.ndarray[Any, Any]] | None:
                image = next(self.images, None)
                return None if image is None else {"input": image}

        path = self.folder / "resnet18-int8.onnx"
        images = np.random.default_rng(0).standard_normal((CALIBRATION_IMAGES, 1, *self.shape), np.float32)
        logging.disable(logging.WARNING)  # of a preprocessing that this graph does not need: its BatchNorms are folded
        try:
            quantize_static(
                self.fp32,
                path,
                Images(iter(images)),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
        finally:
            logging.disable(logging.NOTSET)
        return path
