"""How a network was made, so that it can be made again."""

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ftbnn.errors import UserError
from ftbnn.models.own import is_own, load_own, resolved
from ftbnn.models.registry import build


@dataclass(frozen=True)
class ModelSpec:
    """A name of the registry or FILE.py:FACTORY, its path in full, and settings. `name` is empty for a module made in
    Python."""

    name: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", resolved(self.name))

    def build(self) -> nn.Module:
        if not self.name:
            raise UserError("this run's network was made in Python: build it there and hand it over")
        given = {key: value for key, value in self.settings.items() if value is not None}
        return load_own(self.name, **given) if is_own(self.name) else build(self.name, **given)
