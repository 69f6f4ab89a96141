"""A node of a network as it was read, and what is said where it cannot be held."""

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ftbnn.errors import UserError
from ftbnn.text import line

Array = NDArray[Any]
MOST_ELEMENTS = 2**28  # of a tensor, for one image
LONGEST_NAME = 80


@dataclass(frozen=True)
class Node:
    """One operator: the names of what it reads ("" where an input is left out) and writes."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 17
    domain: str = ""

    @property
    def label(self) -> str:
        """As errors speak of it."""
        called = self.name or (self.outputs[0] if self.outputs else "")
        return f"{line(self.op, LONGEST_NAME)} {line(called, LONGEST_NAME)!r}"

    def get(self, name: str, default: Any) -> Any:
        """An attribute, of the type that its default has."""
        found = self.attributes.get(name, default)
        if isinstance(default, float) and isinstance(found, int):
            found = float(found)
        if default is not None and not isinstance(found, type(default)):
            raise ImportRefused(self, f"its attribute {name} is not of the type {type(default).__name__}")
        return found


class ImportRefused(UserError):
    """A node that a .ftbnn file cannot hold, or that is not as ONNX has it, and why."""

    def __init__(self, node: Node | None, reason: str) -> None:
        where = "the network" if node is None else node.label
        super().__init__(f"cannot import {where}: {line(reason, 300)}")
