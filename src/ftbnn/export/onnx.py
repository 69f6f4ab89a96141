"""The float-simulated network as ONNX: signs, binary weights and FPReLUs written with plain float operators."""

import copy
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.export.trace import evaluating, first_line, is_leaf
from ftbnn.files import write_atomically
from ftbnn.nn import BConv, FPReLU, Sign

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


class _PlainSign(nn.Module):
    def __init__(self, sign: Sign) -> None:
        super().__init__()
        self.mode, self.low = sign.mode, 0.0 if sign.zero_one else -1.0

    def forward(self, x: Tensor) -> Tensor:
        if self.mode != "sign":
            return torch.tanh(x) if self.mode == "tanh" else x
        return torch.where(x > 0, torch.ones_like(x), torch.full_like(x, self.low))


class _PlainConv(nn.Module):
    """A BConv whose weights are constants: what its forward multiplies with."""

    def __init__(self, conv: BConv) -> None:
        super().__init__()
        self.stride, self.padding, self.parts = conv.stride, conv.padding, conv.parts
        for part in conv.parts:
            self.register_buffer(part.weight, conv.effective_weight(conv.proxies(part)).detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        outputs = []
        for part in self.parts:
            inputs = x if len(self.parts) == 1 else x[:, part.inputs]
            weight = self.get_buffer(part.weight)
            outputs.append(F.conv2d(inputs, weight, stride=self.stride, padding=self.padding, groups=part.groups))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)


class _PlainFPReLU(nn.Module):
    def __init__(self, act: FPReLU) -> None:
        super().__init__()
        self.left, self.right = act.left, act.right

    def forward(self, x: Tensor) -> Tensor:
        shape = [-1, *[1] * (x.dim() - 2)]
        return torch.where(x > 0, self.right.reshape(shape) * x, self.left.reshape(shape) * x)


TWINS: dict[type[nn.Module], Callable[..., nn.Module]] = {Sign: _PlainSign, BConv: _PlainConv, FPReLU: _PlainFPReLU}


def plain(module: nn.Module) -> nn.Module:
    """A copy of `module`, in evaluation mode, with PyTorch's layers and operators only."""
    root = nn.Sequential(copy.deepcopy(module))
    replaced: dict[nn.Module, nn.Module] = {}
    for path, layer in list(root.named_modules(remove_duplicate=False)):
        for kind, twin in TWINS.items():
            if isinstance(layer, kind) and is_leaf(layer):
                parent, _, name = path.rpartition(".")
                setattr(root.get_submodule(parent), name, replaced.setdefault(layer, twin(layer)))
    return root.eval()


def export_onnx(module: nn.Module, example_input: Tensor, path: Path | str) -> OnnxReport:
    """Writes `module` for batches of any size of images like `example_input`, and checks the file in ONNX Runtime."""
    if find_spec("onnx") is None:
        raise UserError("writing ONNX needs the onnx package: pip install 'ftbnn[experiments]'")
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
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
    data = buffer.getvalue()
    relative_error = _check(module, example_input, data)
    write_atomically(Path(path), data)
    return OnnxReport(Path(path), len(data), relative_error)


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
