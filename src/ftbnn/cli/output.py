"""What the verbs print with: JSON, and the check for PyTorch."""

import json
from typing import Any

from ftbnn.errors import has_torch, lacks_torch
from ftbnn.json_text import valid


def print_json(value: Any) -> None:
    """Valid JSON, whatever the value: what is not a number is null."""
    print(json.dumps(valid(value), indent=2, allow_nan=False))


def require_torch(verb: str) -> None:
    """Says what to install where only the light runtime is there."""
    if not has_torch():
        raise lacks_torch(f"`{verb}`")
