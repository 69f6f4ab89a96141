"""A torch module in, a .ftbnn file out; and files as graphs, which takes no PyTorch: only the names below import it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ftbnn.packing.graph import ExportError

if TYPE_CHECKING:
    from ftbnn.packing.export import Report, build_graph, pack
    from ftbnn.packing.onnx import export_onnx
    from ftbnn.packing.verify import Agreement

__all__ = ["Agreement", "ExportError", "Report", "build_graph", "export_onnx", "pack"]
HOMES = {"Agreement": "verify", "Report": "export", "build_graph": "export", "export_onnx": "onnx", "pack": "export"}


def __getattr__(name: str) -> Any:
    if name in HOMES:
        return getattr(import_module(f"ftbnn.packing.{HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
