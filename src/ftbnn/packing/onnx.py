"""The float-simulated network as ONNX: signs, binary weights and FPReLUs written with plain float operators."""

import copy
import io
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ftbnn.errors import UserError, first_line
from ftbnn.files import write_atomically
from ftbnn.nn import use_backend
from ftbnn.nn.layer import freeze
from ftbnn.packing.write import InputInfo
from ftbnn.tracing import evaluating

OPSET = 17
CHECK_IMAGES = 8
# A sum in another order now and then turns the sign of a number next to 0, and that moves the outputs of one image a
# little. A wrong graph is off by about 1 on all of them.
TOLERANCE = 0.1


@dataclass(frozen=True)
class OnnxReport:
    """The file's size, and how far ONNX Runtime's outputs are from the module's: the median over images of the
    relative error. None where ONNX Runtime is not installed."""

    path: Path
    size_bytes: int
    relative_error: float | None


def plain(module: nn.Module) -> nn.Module:
    """A copy of `module`, in evaluation mode, whose weights are what its forward multiplies with."""
    twin = copy.deepcopy(module).eval()
    freeze(twin)
    return twin


def export_onnx(
    module: nn.Module, example_input: Tensor, path: Path | str, *, info: InputInfo | None = None
) -> OnnxReport:
    """Writes `module` for batches of any size of images like `example_input`, and checks the file in ONNX Runtime.
    What `info` says of the images is kept as the file's metadata."""
    if find_spec("onnx") is None:
        raise UserError("writing ONNX needs the onnx package: pip install onnx")
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad(), use_backend("plain"):
        warnings.simplefilter("ignore")  # of tracing, and that this exporter is the older one
        try:
            torch.onnx.export(
                plain(module),
                (example_input,),
                buffer,  # type: ignore[arg-type]
                dynamo=False,
                opset_version=OPSET,
                input_names=["input"],
                output_names=["output"],
                dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
            )
        except Exception as error:
            raise UserError(f"PyTorch cannot write this network as ONNX: {first_line(error)}") from error
    data = buffer.getvalue() if info is None else _telling(buffer.getvalue(), info)
    relative_error = _check(module, example_input, data)
    write_atomically(Path(path), data)
    return OnnxReport(Path(path), len(data), relative_error)


def _telling(data: bytes, info: InputInfo) -> bytes:
    """The file with metadata."""
    import onnx

    model = onnx.load_from_string(data)
    onnx.helper.set_model_props(model, info.metadata())
    return bytes(model.SerializeToString())


def _check(module: nn.Module, example_input: Tensor, data: bytes) -> float | None:
    """The median relative error of ONNX Runtime on random images; raises if it is another network."""
    try:
        import onnxruntime
    except ImportError:
        return None
    images = torch.randn(
        CHECK_IMAGES, *example_input.shape[1:], dtype=example_input.dtype, generator=torch.Generator().manual_seed(0)
    )
    with evaluating(module):
        expected = module(images.to(example_input.device)).cpu().double().flatten(1).numpy()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    found = np.asarray(session.run(None, {"input": images.numpy()})[0], dtype=np.float64).reshape(expected.shape)
    size = np.linalg.norm(expected, axis=1).clip(1e-30)
    error = float(np.median(np.linalg.norm(found - expected, axis=1) / size))
    if not error <= TOLERANCE:
        raise UserError(f"ONNX Runtime gives other results than PyTorch: relative error {error:.2g}")
    return error
