"""How a network was made, so that it can be made again."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from ftbnn.errors import UserError
from ftbnn.models.own import load_own
from ftbnn.models.registry import build
from ftbnn.own import is_own, lost_file, resolved


@dataclass(frozen=True)
class ModelSpec:
    """A name of the registry or FILE.py:FACTORY, and settings, of which `method` may be FILE.py:METHOD; paths in full.
    `name` is empty for a module made in Python."""

    name: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", resolved(self.name))
        if isinstance(method := self.settings.get("method"), str):
            object.__setattr__(self, "settings", self.settings | {"method": resolved(method)})

    @property
    def lost_file(self) -> Path | None:
        """A file of the user's that it takes and that is not there any more."""
        names = (self.name, self.settings.get("method"))
        return next((file for name in names if isinstance(name, str) and (file := lost_file(name))), None)

    def build(self) -> nn.Module:
        if not self.name:
            raise UserError("this run's network was made in Python: build it there and hand it over")
        given = {key: value for key, value in self.settings.items() if value is not None}
        return load_own(self.name, **given) if is_own(self.name) else build(self.name, **given)
