"""1-bit convolutional networks: layers, networks, budgets, training and a native engine.

Importing this package loads neither PyTorch nor NumPy; the sub-packages import what they need.
"""

from importlib import metadata as _metadata

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        return _metadata.version("ftbnn")
    raise AttributeError(f"module 'ftbnn' has no attribute {name!r}")
