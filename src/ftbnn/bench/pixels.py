"""8-bit images, (N, height, width, channels), as decoders give them: every engine normalises them itself."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of ImageNet, so that channels are scaled differently; other numbers of channels take the middle one's.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Images = NDArray[np.float32] | NDArray[np.uint8]


def mean_and_std(channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return (MEAN, STD) if channels == 3 else ((MEAN[1],) * channels, (STD[1],) * channels)


def scale_and_shift(channels: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(1, channels, 1, 1) each: scale * x + shift is (x / 255 - mean) / std."""
    mean, std = (np.array(numbers).reshape(1, -1, 1, 1) for numbers in mean_and_std(channels))
    return (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)


def random_images(batch: int, shape: tuple[int, int, int], *, is_pixels: bool) -> Images:
    """Normalised (N, channels, height, width), or pixels."""
    rng = np.random.default_rng(0)
    if is_pixels:
        return rng.integers(0, 256, (batch, *shape[1:], shape[0]), np.uint8)
    return rng.standard_normal((batch, *shape), np.float32)


def is_pixels(images: Images) -> bool:
    return images.dtype == np.uint8


def with_pixels(model: Any) -> Any:
    """An ONNX model of normalised images as one of pixels: converted, transposed and scaled at its start."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    batch, channels, height, width = graph.input[0].type.tensor_type.shape.dim
    scale, shift = scale_and_shift(channels.dim_value)
    nodes = [
        helper.make_node("Cast", ["pixels"], ["pixels/numbers"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["pixels/numbers"], ["pixels/planes"], perm=[0, 3, 1, 2]),
        helper.make_node("Mul", ["pixels/planes", "pixels/scale"], ["pixels/scaled"]),
        helper.make_node("Add", ["pixels/scaled", "pixels/shift"], [graph.input[0].name]),
    ]
    extents = [batch.dim_param or batch.dim_value, height.dim_value, width.dim_value, channels.dim_value]
    del graph.input[0]
    graph.input.insert(0, helper.make_tensor_value_info("pixels", TensorProto.UINT8, extents))
    graph.initializer.extend(
        numpy_helper.from_array(array, f"pixels/{name}") for name, array in (("scale", scale), ("shift", shift))
    )
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend(nodes + rest)
    onnx.checker.check_model(model)
    return model
