"""Networks to and from elsewhere: files named after their foreign format."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "from_brevitas":  # imports PyTorch
        from ftbnn.exchange.brevitas import from_brevitas

        return from_brevitas
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
