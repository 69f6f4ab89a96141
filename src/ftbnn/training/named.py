"""Training and evaluating by name: model, data and recipe put together, for the command line and the experiments."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ftbnn.budget import count
from ftbnn.data import Source, load
from ftbnn.data.batches import Batches
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.models.own import is_own
from ftbnn.models.registry import find as find_model
from ftbnn.models.skeleton import skeleton
from ftbnn.training import recipes
from ftbnn.training.distributed import World
from ftbnn.training.fit import fit, with_settings
from ftbnn.training.loop import Loop
from ftbnn.training.recipe import Recipe
from ftbnn.training.recipes import Steps
from ftbnn.training.run import ModelSpec, RunDir, load_network

LARGEST_SMALL_IMAGE = 64  # up to here the stem keeps the resolution


@dataclass(frozen=True)
class Plan:
    """A run about to start."""

    model: ModelSpec
    source: Source
    recipe: Recipe | Steps
    out: Path


def plan(
    model: str,
    data: str,
    *,
    data_dir: Path | None = None,
    recipe: str | None = None,
    settings: dict[str, str] | None = None,
    out: Path | None = None,
    width: int | None = None,
    stem: str | None = None,
    image_size: int | None = None,
) -> Plan:
    """Resolves names and defaults, and checks that the network runs on the data's images."""
    source = load(data, data_dir, image_size=image_size)
    spec = source.spec
    name = recipe or recipes.for_data("teacher" if model.startswith("resnet") else "naive", data)
    resolved = with_settings(recipes.find(name), settings or {})
    if is_own(model):
        chosen = {"classes": spec.classes, "in_channels": spec.channels, "width": width, "stem": stem}
    else:
        entry = find_model(model)
        small = "small" if spec.image_size <= LARGEST_SMALL_IMAGE else "imagenet"
        chosen = {
            "classes": spec.classes,
            "in_channels": spec.channels,
            "width": width or (recipes.DEFAULT_WIDTH.get(data) if entry.width == "width" and entry.has_stems else None),
            "stem": stem or (small if entry.has_stems else None),
        }
    model_spec = ModelSpec(model, chosen)
    with skeleton():
        network = model_spec.build()
    count(network, (spec.channels, spec.image_size, spec.image_size))
    safe = model.replace("/", "-").replace(":", "-")
    return Plan(model_spec, source, resolved, out or Path("runs") / f"{safe}-{data}")


def train(plan: Plan, *, teacher: Path | None = None, **options: Any) -> dict[str, Any]:
    """Runs a plan; returns the last epoch's row."""
    master = load_teacher(teacher, plan.source) if teacher is not None else None
    return fit(plan.model.build, plan.source, plan.recipe, plan.out, teacher=master, model_spec=plan.model, **options)


def load_teacher(path: Path, source: Source) -> nn.Module:
    """A teacher from one of our runs or checkpoints, or from a state_dict of torchvision's resnet18 or resnet34."""
    if not path.exists():
        raise UserError(f"no teacher at {path}: give a run directory, a checkpoint, or a resnet18 state_dict (.pth)")
    if path.is_dir():
        return load_network(path)[0]
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path} cannot be read as weights: {reason[:160]}") from error
    if isinstance(state, dict) and "model_spec" in state:
        return load_network(path)[0]
    return _torchvision_resnet(path, state, source)


def _torchvision_resnet(path: Path, state: Any, source: Source) -> nn.Module:
    if not isinstance(state, dict) or "fc.weight" not in state or "conv1.weight" not in state:
        raise UserError(f"{path} is not a state_dict of torchvision's resnet18 or resnet34")
    classes, in_channels = state["fc.weight"].shape[0], state["conv1.weight"].shape[1]
    name = "resnet34" if "layer1.2.conv1.weight" in state else "resnet18"
    stem = "imagenet" if state["conv1.weight"].shape[-1] == 7 else "small"
    width = state["conv1.weight"].shape[0]
    network = build(name, classes=classes, in_channels=in_channels, stem=stem, width=width)  # type: ignore[arg-type]
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise UserError(f"{path} does not fit {name}: {str(error).splitlines()[0]}") from error
    if classes != source.spec.classes:
        raise UserError(f"the teacher {path} has {classes} classes, {source.spec.name} has {source.spec.classes}")
    return network.eval()


def evaluate(path: Path, data: str | None, data_dir: Path | None, *, workers: int = 0) -> dict[str, Any]:
    """Loss and accuracy of a run's best epoch, or of a checkpoint, on the test split of its data or of another."""
    network, state = load_network(path)
    saved = state["spec"]
    if data is None and saved is None:
        raise UserError(f"{path} was trained on data of your own; say which data with --data")
    name = data or saved["name"]
    source = load(name, data_dir, image_size=saved["image_size"] if saved and saved["name"] == name else None)
    if saved is not None:
        # What the network learnt with: another data set of the same shape is normalised as the training data was.
        source = replace(source, spec=replace(source.spec, mean=tuple(saved["mean"]), std=tuple(saved["std"])))
    recipe = Recipe.from_json(state["recipe"])
    batches = Batches(source.val, source.spec, batch_size=recipe.batch_size, shuffle=False, workers=workers)
    loop = Loop(
        network,
        batches,
        batches,
        replace(recipe, kl=0.0, attention=0.0, compile=False),
        RunDir(path),
        world=World(),
        device=torch.device("cpu"),
        model_spec=ModelSpec(**state["model_spec"]),
        quiet=True,
    )
    return {
        "checkpoint": str(path),
        "data": name,
        "images": len(source.val),
        "epoch": state["epoch"],
        **loop.evaluate(),
    }
