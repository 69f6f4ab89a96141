"""Networks to and from elsewhere: files named after their foreign format."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "import_network":
        from ftbnn.exchange.qonnx_import import import_network

        return import_network
    if name == "from_brevitas":  # imports PyTorch
        from ftbnn.exchange.brevitas import from_brevitas

        return from_brevitas
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
