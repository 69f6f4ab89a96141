"""A Brevitas module in, a .ftbnn file out: by way of the QONNX that Brevitas itself writes."""

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError, first_line
from ftbnn.exchange.qonnx_import import Imported, import_network


def from_brevitas(module: nn.Module, example_input: Tensor, path: str | Path, **settings: Any) -> Imported:
    """Writes a module of Brevitas layers, in evaluation mode, for images like `example_input`; `settings` are those of
    `import_network` (mean, std, class_names, ...). Raises UserError for what a .ftbnn file cannot hold."""
    return import_network(qonnx_of(module, example_input), path, **settings)


def qonnx_of(module: nn.Module, example_input: Tensor) -> bytes:
    """The module's QONNX file. The module is left in the mode it was in."""
    try:
        from brevitas.export import export_qonnx
    except ImportError:
        raise UserError("a Brevitas module needs brevitas, onnx and qonnx: pip install 'ftbnn[exchange]'") from None
    buffer = io.BytesIO()
    was_training = module.training
    try:
        with warnings.catch_warnings(), torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # of tracing, and that the exporter is the older one
            export_qonnx(module.eval(), example_input[:1], buffer, dynamo=False)
    except Exception as error:
        raise UserError(f"Brevitas cannot write this network as QONNX: {first_line(error)}") from error
    finally:
        module.train(was_training)
    return buffer.getvalue()
