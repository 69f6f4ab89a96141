"""Training and evaluating by name: model, data and recipe put together, for the command line and the experiments."""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.budget import count
from ftbnn.data import Source, load
from ftbnn.data.batches import Batches
from ftbnn.errors import UserError
from ftbnn.export.read import read_graph
from ftbnn.models import build
from ftbnn.models.own import is_own, parameters_of
from ftbnn.models.registry import find as find_model
from ftbnn.models.skeleton import skeleton
from ftbnn.nn import StemName, set_backend, stem_for
from ftbnn.training import recipes
from ftbnn.training.fit import augmentation, fit, with_settings
from ftbnn.training.packed_start import start_from_file
from ftbnn.training.recipe import Recipe
from ftbnn.training.recipes import Steps
from ftbnn.training.run import ModelSpec, RunDir, load_network, load_state
from ftbnn.training.scores import evaluate
from ftbnn.training.warm_start import start_from
from ftbnn.zoo import card, name_in, resolve

STATISTICS_IMAGES = 512


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
    source: Source | None = None,
    recipe: str | None = None,
    settings: dict[str, str] | None = None,
    out: Path | None = None,
    width: int | None = None,
    stem: str | None = None,
    image_size: int | None = None,
) -> Plan:
    """Resolves names and defaults, and checks that the network runs on the data's images. `source`: `data`, loaded."""
    source = source or load(data, data_dir, image_size=image_size)
    spec = source.spec
    for name, value in (("--width", width), ("--image-size", image_size)):
        if value is not None and value < 1:
            raise UserError(f"{name} must be 1 or more, not {value}")
    is_teacher = not is_own(model) and model.startswith("resnet")
    resolved = with_settings(
        recipes.find(recipe or recipes.for_data("teacher" if is_teacher else "naive", data)), settings or {}
    )
    chosen: dict[str, Any] = {"classes": spec.classes, "in_channels": spec.channels, "width": width, "stem": stem}
    if is_own(model):
        takes = parameters_of(model)
        chosen = {
            key: value
            for key, value in chosen.items()
            if key in takes or (value is not None and key in ("width", "stem"))
        }
    elif (entry := find_model(model)).has_stems:
        default_width = recipes.DEFAULT_WIDTH.get(data) if entry.width is not None else None
        chosen |= {"width": default_width if width is None else width, "stem": stem or stem_for(spec.image_size)}
    model_spec = ModelSpec(model, chosen)
    try:
        with skeleton():
            network = model_spec.build()
        count(network, (spec.channels, spec.image_size, spec.image_size))
    except UserError as error:
        if not is_own(model):
            raise
        warnings.warn(f"not checked before training: {error}", stacklevel=2)  # it may still run with real numbers
    safe = model.replace("/", "-").replace(":", "-")
    return Plan(model_spec, source, resolved, out or Path("runs") / f"{safe}-{data}")


def train(plan: Plan, *, teacher: Path | None = None, init: Path | None = None, **options: Any) -> dict[str, Any]:
    """Runs a plan, from the weights of the run, checkpoint or file `init` if given; returns the last epoch's row."""
    steps = plan.recipe.steps if isinstance(plan.recipe, Steps) else (plan.recipe,)
    if teacher is not None and not any(step.needs_teacher for step in steps):
        raise UserError(f"recipe {plan.recipe.name} does not distil; --set kl=1 makes it, or leave --teacher out")
    master = load_teacher(teacher, plan.source) if teacher is not None else None
    run = RunDir(plan.out)
    begun = [step for step in (run, *run.steps) if step.last.exists()] if options.get("resume") else []
    if begun:  # what it started from is in its weights, and in its description
        about = begun[0].read_json("run.json")
        start, facts = None, {key: value for key, value in about.items() if key.startswith("init_")}
    else:
        start, facts = _start(init, plan) if init is not None else (None, {})
    origin = {"init": "" if init is None else str(init.absolute() if name_in(init) is None else init)} | facts
    options |= {"teacher": master, "teacher_name": str(teacher or ""), "origin": origin, "model_spec": plan.model}

    def network() -> nn.Module:
        made = plan.model.build()
        if start is not None and (fresh := start(made)):
            warnings.warn(f"the classifier of {init} has another shape: {', '.join(fresh)} not taken", stacklevel=2)
        return made

    return fit(network, plan.source, plan.recipe, plan.out, **options)


def _start(init: Path, plan: Plan) -> tuple[Callable[[nn.Module], list[str]], dict[str, Any]]:
    """What gives a network the weights of `init`, and what its run will say of them."""
    file = resolve(init)
    if file.suffix != ".ftbnn":
        state = load_state(init)
        epoch = f"{state['epoch']} of {state['recipe']['epochs']}"
        return lambda network: start_from(network, state), {"init_epoch": epoch}
    facts: dict[str, Any] = {}
    if (name := name_in(init)) is not None:  # when this network joins the zoo, another one may have the name
        about = card(name)
        epochs = " and ".join(re.findall(r"\d+ of \d+", about["epoch"]))
        facts = {"init_epoch": epochs, "init_commands": about["commands"]}
    graph = read_graph(file)
    return lambda network: start_from_file(network, graph, _first_images(plan), init), facts


def _first_images(plan: Plan) -> Iterator[Tensor]:
    """Training images, augmented as in training, enough of them for statistics."""
    source = plan.source
    recipe = plan.recipe.steps[0] if isinstance(plan.recipe, Steps) else plan.recipe
    augment = augmentation(source.spec, recipe)
    batches = Batches(source.train, source.spec, batch_size=64, shuffle=True, augmentation=augment)
    seen = 0
    for batch in batches.epoch(0):
        if len(batch):
            yield batch.images
        seen += len(batch)
        if seen >= STATISTICS_IMAGES:
            return


def load_teacher(path: Path, source: Source) -> nn.Module:
    """A teacher from one of our runs or checkpoints, or from a state_dict of torchvision's resnet18 or resnet34."""
    if not path.exists():
        raise UserError(f"no teacher at {path}: give a run directory, a checkpoint, or a resnet18 state_dict (.pth)")
    state: Any = None
    if path.is_file():
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise UserError(f"{path} is neither a checkpoint nor a state_dict that can be read safely") from error
    is_foreign = isinstance(state, dict) and "model_spec" not in state
    network = _torchvision_resnet(path, state) if is_foreign else load_network(path)[0]
    spec = source.spec
    try:
        out = network(torch.zeros(2, spec.channels, spec.image_size, spec.image_size))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the teacher {path} does not take the images of {spec.name}: {reason}") from error
    if out.shape[1] != spec.classes:
        raise UserError(f"the teacher {path} has {out.shape[1]} classes, {spec.name} has {spec.classes}")
    return network


def _torchvision_resnet(path: Path, state: dict[str, Any]) -> nn.Module:
    if "fc.weight" not in state or "conv1.weight" not in state:
        raise UserError(f"{path} is not a state_dict of torchvision's resnet18 or resnet34")
    classes, in_channels = state["fc.weight"].shape[0], state["conv1.weight"].shape[1]
    name = "resnet34" if "layer1.2.conv1.weight" in state else "resnet18"
    stem: StemName = "imagenet" if state["conv1.weight"].shape[-1] == 7 else "small"
    network = build(name, classes=classes, in_channels=in_channels, stem=stem, width=state["conv1.weight"].shape[0])
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise UserError(f"{path} does not fit {name}: {str(error).splitlines()[0]}") from error
    return network.eval()


def load_for_scores(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """As `load_network`, with the backend it was trained with: it gives the same floats as at the end of its epoch."""
    network, state = load_network(path)
    if Recipe.from_json(state["recipe"]).backend.startswith("native"):
        set_backend(network, "native")
    return network, state


def evaluate_named(
    path: Path, data: str | None, data_dir: Path | None, *, workers: int = 0, batch_size: int = 256
) -> dict[str, Any]:
    """Loss and accuracy of a run's best epoch, or of a checkpoint, on the test split of its data or of another."""
    network, state = load_for_scores(path)
    saved = state["spec"]
    if data is None and saved is None:
        raise UserError(f"{path} was trained on data of your own; say which data with --data")
    name = data or saved["name"]
    source = load(name, data_dir, image_size=saved["image_size"] if saved and saved["name"] == name else None)
    if saved is not None:
        for what in ("channels", "classes", "class_names"):
            then, now = saved[what], getattr(source.spec, what)
            if list(then) != list(now) if what == "class_names" else then != now:
                raise UserError(f"{path} was trained on {what} {then}; {name} has {now}")
        # What the network learnt with: another data set of the same classes is normalised as the training data was.
        source = replace(source, spec=replace(source.spec, mean=tuple(saved["mean"]), std=tuple(saved["std"])))
    batches = Batches(source.val, source.spec, batch_size=batch_size, shuffle=False, workers=workers)
    scores = evaluate(network, batches, device=torch.device("cpu"))
    return {"checkpoint": state["path"], "data": name, "epoch": state["epoch"], **scores}
