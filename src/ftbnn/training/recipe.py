"""A recipe: everything that defines the result of a training run, as data."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from ftbnn.errors import UserError, unknown

Schedule = Literal["multi-step", "cosine", "constant"]
Precision = Literal["fp32", "bf16", "fp16"]
Augment = Literal["auto", "none", "crop", "crop-flip", "imagenet"]
Activations = Literal["model", "sign", "tanh", "identity"]
Weights = Literal["model", "binary", "real"]


@dataclass(frozen=True)
class Recipe:
    """The paper's naive recipe by default; a variant is `dataclasses.replace(recipe, ...)`."""

    name: str
    epochs: int = 60
    batch_size: int = 256
    lr: float = 0.01
    schedule: Schedule = "multi-step"
    milestones: tuple[float, ...] = (45 / 60, 55 / 60)  # as shares of the epochs
    decay: float = 0.1  # factor at each milestone
    warmup_epochs: float = 0.0
    weight_decay: float = 1e-4  # on real convolutions and the classifier; 0 on BatchNorm, slopes and binary weights
    label_smoothing: float = 0.0
    augment: Augment = "auto"  # auto: what the data set says
    activations: Activations = "model"  # model: as the network was built
    weights: Weights = "model"
    ce: float = 1.0  # weights of the losses: labels,
    kl: float = 0.0  # the teacher's soft labels,
    attention: float = 0.0  # the teacher's attention at stage ends
    precision: Precision = "fp32"
    channels_last: bool = False
    compile: bool = False
    accumulate: int = 1  # micro-batches per step; batch_size counts the whole step
    clip_norm: float = 0.0  # 0: no clipping
    max_loss: float = 1000.0  # a larger loss counts as exploded

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if (
                (choices := get_args(hints[field.name]))
                and all(isinstance(c, str) for c in choices)
                and value not in choices
            ):
                raise unknown(field.name, str(value), choices)
        for name in ("epochs", "batch_size", "accumulate"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be 1 or more, not {getattr(self, name)}")
        for name in ("lr", "max_loss"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.accumulate > self.batch_size:
            raise UserError(f"accumulate={self.accumulate} is more than batch_size={self.batch_size}")

    @property
    def needs_teacher(self) -> bool:
        return self.kl > 0 or self.attention > 0

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Recipe:
        known = {field.name for field in dataclasses.fields(cls)}
        if stray := set(values) - known:
            raise UserError(f"this version knows no recipe setting {', '.join(sorted(stray))}")
        return cls(**{**values, "milestones": tuple(values.get("milestones", cls.milestones))})

    def changed(self, settings: Mapping[str, str]) -> Recipe:
        """The recipe with `key=value` texts applied, each read as the type of its field."""
        hints = get_type_hints(type(self))
        values: dict[str, Any] = {}
        for key, text in settings.items():
            if key not in hints or key == "name":
                raise unknown("recipe setting", key, [name for name in hints if name != "name"])
            values[key] = _read(key, text, hints[key])
        return dataclasses.replace(self, **values)

    def difference(self, other: Recipe) -> list[str]:
        """What differs, as `key: theirs -> ours`."""
        mine, theirs = self.to_json(), other.to_json()
        return [f"{key}: {theirs[key]} -> {mine[key]}" for key in mine if mine[key] != theirs[key]]


def _read(key: str, text: str, kind: Any) -> Any:
    try:
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
        if kind in (int, float):
            return kind(text)
        if kind == tuple[float, ...]:
            return tuple(float(part) for part in text.split(",") if part)
    except (ValueError, KeyError):
        expected = getattr(kind, "__name__", "a list of numbers")
        raise UserError(
            f"{key}={text} cannot be read: {key} is {'a ' if kind is not int else 'an '}{expected}"
        ) from None
    return text


def parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """`["lr=0.1", ...]` as a dict; raises UserError on anything else."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UserError(f"--set takes KEY=VALUE, not {text!r}")
        settings[key.strip()] = value.strip()
    return settings


def show(recipe: Recipe) -> str:
    """The recipe as lines, for people."""
    return "\n".join(f"  {key:<16} {json.dumps(value)}" for key, value in recipe.to_json().items())
