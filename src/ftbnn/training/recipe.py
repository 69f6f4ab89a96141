"""A recipe: everything that defines the result of a training run, as data."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from ftbnn.errors import UserError, refusing, unknown

OptimizerName = Literal["adam", "adamw", "sgd", "bop"]
Schedule = Literal["multi-step", "cosine", "linear", "exponential", "constant"]
Precision = Literal["fp32", "bf16", "fp16"]
Augment = Literal["auto", "none", "crop", "crop-flip", "crop-alternate", "imagenet"]
Activations = Literal["model", "sign", "tanh", "identity"]
Weights = Literal["model", "binary", "real"]
Backend = Literal["auto", "native", "native8", "torch"]

RANGES: dict[str, tuple[float, float]] = {
    "epochs": (1, 1e6),
    "batch_size": (1, 1e6),
    "accumulate": (1, 1e6),
    "lr": (1e-30, 1e6),
    "decay": (0, 1),
    "momentum": (0, 0.9999),
    "bop_rate": (1e-12, 1),
    "bop_threshold": (0, 1e6),
    "warmup_epochs": (0, 1e6),
    "weight_decay": (0, 1e3),
    "label_smoothing": (0, 0.99),
    "ce": (0, 1e6),
    "kl": (0, 1e6),
    "attention": (0, 1e6),
    "clip_norm": (0, 1e9),
    "max_loss": (1e-6, 1e30),
    "validation": (0, 0.9),
    "patience": (0, 1e6),
    "first_size": (0.1, 1),
    "norm_images": (0, 1e9),
}
# What people call a setting elsewhere.
ALSO_CALLED = {
    "learning_rate": "lr",
    "rate": "lr",
    "batch": "batch_size",
    "bs": "batch_size",
    "epoch": "epochs",
    "wd": "weight_decay",
    "l2": "weight_decay",
    "smoothing": "label_smoothing",
    "scheduler": "schedule",
    "gamma": "decay",
    "amp": "precision",
    "early_stopping": "patience",
}


def _unknown_setting(key: str) -> UserError:
    if key in ALSO_CALLED:
        return UserError(f"unknown recipe setting {key!r}; it is called {ALSO_CALLED[key]}")
    return unknown("recipe setting", key, [name for name in get_type_hints(Recipe) if name != "name"])


@refusing(_unknown_setting)
@dataclass(frozen=True)
class Recipe:
    """The paper's naive recipe by default; a variant is `dataclasses.replace(recipe, ...)`."""

    name: str = "own"
    epochs: int = 60
    batch_size: int = 256
    optimizer: OptimizerName = "adam"
    momentum: float = 0.9  # of sgd
    bop_rate: float = 1e-3  # of bop: how fast the mean of a binary weight's gradient follows, times lr's schedule
    bop_threshold: float = 1e-6  # of bop: a larger mean turns the weight
    lr: float = 0.01
    schedule: Schedule = "multi-step"
    milestones: tuple[float, ...] = (45 / 60, 55 / 60)  # as shares of the epochs
    decay: float = 0.1  # factor at each milestone; of an exponential schedule from its first epoch to its end
    warmup_epochs: float = 0.0
    weight_decay: float = 1e-4  # on real convolutions and the classifier; 0 on BatchNorm, slopes and binary weights
    label_smoothing: float = 0.0
    augment: Augment = "auto"  # auto: what the data set says
    first_size: float = 1.0  # side of the first epochs' images, as a share; whole from two thirds of the epochs on
    activations: Activations = "model"  # model: as the network was built
    weights: Weights = "model"
    ce: float = 1.0  # weights of the losses: labels,
    kl: float = 0.0  # the teacher's soft labels,
    attention: float = 0.0  # the teacher's attention at stage ends
    precision: Precision = "fp32"
    channels_last: bool = False
    compile: bool = False
    backend: Backend = "auto"  # of the binary blocks; auto: native on a CPU that has the kernels, else torch
    validation: float = 0.1  # share of the training images held out to choose the best epoch, where data bring no split
    patience: int = 0  # epochs without a better one after which training stops; 0: never
    norm_images: int = 0  # training images of which BatchNorms take their statistics anew after the last epoch
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
            if hints[field.name] in (int, float, bool) and not _is(value, hints[field.name]):
                raise UserError(f"{field.name} is {_kind(hints[field.name])}, not {value!r}")
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise UserError(f"{name} must be {least:g} to {most:g}, not {value}")
        shares = self.milestones
        if not isinstance(shares, tuple) or not all(_is(share, float) and 0 < share <= 1 for share in shares):
            raise UserError(f"milestones are shares of the epochs, above 0 and up to 1, as a tuple, not {shares!r}")
        if self.accumulate > self.batch_size:
            raise UserError(f"accumulate={self.accumulate} is more than batch_size={self.batch_size}")

    @property
    def needs_teacher(self) -> bool:
        return self.kl > 0 or self.attention > 0

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Recipe:
        values = {"backend": "torch", "validation": 0.0, **values}  # what there was before recipes named it
        known = {field.name for field in dataclasses.fields(cls)}
        if stray := set(values) - known:
            raise UserError(f"this version knows no recipe setting {', '.join(sorted(stray))}")
        if "name" not in values:
            raise UserError("this is not a recipe: it has no name")
        try:
            return cls(**{**values, "milestones": tuple(values.get("milestones", cls.milestones))})
        except TypeError as error:
            raise UserError(f"this is not a recipe: {error}") from error

    def changed(self, settings: Mapping[str, str]) -> Recipe:
        """The recipe with `key=value` texts applied, each read as the type of its field."""
        hints = get_type_hints(type(self))
        values: dict[str, Any] = {}
        for key, text in settings.items():
            if key not in hints or key == "name":
                raise _unknown_setting(key)
            values[key] = _read(key, text, hints[key])
        changed = dataclasses.replace(self, **values)
        uses = {"multi-step": {"milestones", "decay"}, "exponential": {"decay"}}.get(changed.schedule, set())
        if idle := ({"milestones", "decay"} - uses) & values.keys():
            raise UserError(f"schedule={changed.schedule} has no {' and '.join(sorted(idle))}; schedule=multi-step has")
        owners = {"momentum": "sgd", "bop_rate": "bop", "bop_threshold": "bop"}
        for key in owners.keys() & values.keys():
            if changed.optimizer != owners[key]:
                raise UserError(f"optimizer={changed.optimizer} has no {key}; optimizer={owners[key]} has")
        return changed

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
        raise UserError(f"{key}={text} cannot be read: {key} is {_kind(kind)}") from None
    return text


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, int | float) if kind is float else isinstance(value, int)


def _kind(kind: Any) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "a list of numbers")


def parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """`["lr=0.1", ...]` as a dict; raises UserError on anything else."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UserError(f"a setting is KEY=VALUE, not {text!r}")
        settings[key.strip()] = value.strip()
    return settings


def show(recipe: Recipe) -> str:
    """The recipe as lines, for people."""
    return "\n".join(f"  {key:<16} {json.dumps(value)}" for key, value in recipe.to_json().items())
