"""The engines a user could pick instead, each in its file.

A file's `contenders(subjects, resnet, threads, images)` gives functions that make one contender each, or raise a
UserError with the reason why there is none.
"""

from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType

from ftbnn.errors import unknown

PEERS = {"onnxruntime": "onnx_runtime", "openvino": "openvino_cpu", "torch": "torch_eager"}  # package: file here


def check(names: list[str]) -> None:
    for name in names:
        if name not in PEERS:
            raise unknown("peer", name, PEERS)


def load(name: str) -> ModuleType | None:
    """The peer's file, or None where its package is not installed."""
    return import_module(f"{__name__}.{PEERS[name]}") if find_spec(name) is not None else None


def version(name: str) -> str | None:
    return metadata.version(name) if find_spec(name) is not None else None
