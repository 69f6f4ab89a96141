"""What the verbs print with: JSON, a line of trouble, and the check for PyTorch."""

import json
import sys
from typing import Any

from ftbnn.errors import has_torch, lacks_torch
from ftbnn.json_text import valid
from ftbnn.text import line

LONGEST_LINE = 2000


def print_json(value: Any) -> None:
    """Valid JSON, whatever the value: what is not a number is null."""
    print(json.dumps(valid(value), indent=2, allow_nan=False))


def say(text: str) -> None:
    """What is wrong, in one line, whatever a path in it holds."""
    print(line(text, LONGEST_LINE), file=sys.stderr)


def require_torch(verb: str) -> None:
    """Says what to install where only the light runtime is there."""
    if not has_torch():
        raise lacks_torch(f"`{verb}`")
