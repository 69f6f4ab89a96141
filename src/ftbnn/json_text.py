"""JSON that any reader takes, and whose changes people can read."""

import json
import math
from typing import Any


def valid(value: Any) -> Any:
    """The value with None for what JSON has no number for: NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): valid(item) for key, item in value.items()}
    return [valid(item) for item in value] if isinstance(value, list | tuple) else value


def rounded(value: Any) -> Any:
    """The value with all its floats cut to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def dumps(value: Any, level: int = 0) -> str:
    """One line per innermost object or list."""
    flat = json.dumps(value, allow_nan=False)
    if not isinstance(value, dict | list | tuple) or len(flat) <= 120 or not _is_deep(value):
        return flat
    pad = " " * (level + 1)
    if isinstance(value, dict):
        inner = [f"{pad}{json.dumps(str(key))}: {dumps(item, level + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner) + f"\n{' ' * level}}}"
    return "[\n" + ",\n".join(pad + dumps(item, level + 1) for item in value) + f"\n{' ' * level}]"


def _is_deep(value: Any) -> bool:
    return any(isinstance(item, dict | list | tuple) for item in (value.values() if isinstance(value, dict) else value))
