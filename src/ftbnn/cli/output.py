"""What the verbs print with: JSON, and the check for PyTorch."""

import json
from importlib.util import find_spec
from typing import Any

from ftbnn.errors import lacks_torch
from ftbnn.json_text import valid


def print_json(value: Any) -> None:
    """Valid JSON, whatever the value: what is not a number is null."""
    print(json.dumps(valid(value), indent=2, allow_nan=False))


def require_torch(verb: str) -> None:
    """Says what to install where only the light runtime is there."""
    if find_spec("torch") is None:
        raise lacks_torch(f"`{verb}`")
