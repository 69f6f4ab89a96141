"""Training by name: model, data and recipe put together, for the command line and the experiments."""

import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ftbnn.budget import count
from ftbnn.data import SOURCES, Source, Spec, load
from ftbnn.data.batches import Batches, first_images
from ftbnn.errors import UserError, first_line
from ftbnn.models import build
from ftbnn.models.own import parameters_of
from ftbnn.models.registry import find as find_model
from ftbnn.models.skeleton import skeleton
from ftbnn.models.spec import ModelSpec
from ftbnn.nn import StemName, method_named, stem_for
from ftbnn.own import is_own
from ftbnn.packing.read import read_graph
from ftbnn.packing.restore import restore
from ftbnn.training import Options, Recipe, Steps, fit, load_run, recipes, with_settings
from ftbnn.training.fit import augmentation
from ftbnn.training.run import RunDir, load_state, misfit, run_of
from ftbnn.workflows.networks import check_positive
from ftbnn.workflows.warm_start import start_from
from ftbnn.zoo import card, name_in, packed_file

RUN = "RUN"  # a run's directory in commands that others will type


@dataclass(frozen=True)
class Plan:
    """A run about to start, or to go on: then with the seed, teacher and first weights that it was started with."""

    model: ModelSpec
    source: Source
    recipe: Recipe | Steps
    out: Path
    words: tuple[str, ...]  # of the command that makes it, up to seed and directory
    data_dir: Path | None = None
    seed: int = 0
    teacher: Path | None = None
    init: Path | None = None


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
    stem_bits: int | None = None,
    image_size: int | None = None,
    method: str | None = None,
) -> Plan:
    """Resolves names and defaults, and checks that the network runs on the data's images. `source`: `data`, loaded."""
    source = source or load(data, data_dir, image_size=image_size)
    spec = source.spec
    if spec is None:
        raise UserError("networks by name are trained on data sets by name")
    check_positive(width=width, image_size=image_size)
    family = "naive" if is_own(model) or method is not None else find_model(model).recipe
    way = None if method is None else method_named(method)
    brought = {} if way is None else dict(way.recipe)
    resolved = with_settings(recipes.find(recipe or recipes.for_data(family, data)), brought | (settings or {}))
    chosen: dict[str, Any] = {"classes": spec.classes, "in_channels": spec.channels, "width": width, "stem": stem}
    chosen |= {key: value for key, value in (("stem_bits", stem_bits), ("method", method)) if value is not None}
    if is_own(model):
        takes = parameters_of(model)
        chosen = {
            key: value
            for key, value in chosen.items()
            if key in takes or (value is not None and key in ("width", "stem", "stem_bits", "method"))
        }
    elif way is not None and way.has_size:
        chosen["image_size"] = spec.image_size
    if not is_own(model) and (entry := find_model(model)).has_stems:
        default_width = recipes.DEFAULT_WIDTH.get(data) if entry.has_width else None
        chosen |= {"width": default_width if width is None else width, "stem": stem or stem_for(spec.image_size)}
    model_spec = ModelSpec(model, chosen)
    if is_own(model):
        _try_out(model_spec, spec)
    else:
        with skeleton():
            count(model_spec.build(), (spec.channels, spec.image_size, spec.image_size))
    asked = {"image-size": image_size, "width": width, "stem": stem, "stem-bits": stem_bits}
    asked |= {"method": method, "recipe": recipe}
    words = ["ftbnn", "train", model, "--data", data, *(["--data-dir", "DIR"] if SOURCES[data].needs_dir else [])]
    words += [word for flag, value in asked.items() if value is not None for word in (f"--{flag}", str(value))]
    words += [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}")]
    return Plan(model_spec, source, resolved, out or usual_out(model, data, method), tuple(words), data_dir)


def usual_out(model: str, data: str, method: str | None = None) -> Path:
    """The directory of a run that was given none."""
    words = [re.sub(r"[/:,()]+", "-", word).rstrip("-") for word in (model, method or "") if word]
    return Path("runs") / "-".join([*words, data])


def _try_out(model: ModelSpec, spec: Spec) -> None:
    """Runs a network of one's own on two black images."""
    shape = (spec.channels, spec.image_size, spec.image_size)
    network = model.build().eval()
    try:
        with torch.no_grad():
            network(torch.zeros(2, *shape))
    except Exception as error:  # whatever a user's network may raise
        what = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{model.name} does not run on images of {'x'.join(map(str, shape))}: {what}") from error


def train(
    plan: Plan,
    options: Options | None = None,
    *,
    teacher: Path | None = None,
    init: Path | None = None,
    tell: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Runs a plan, from the weights of the run, checkpoint or file `init` if given; returns its scores.

    `tell` is called when all that can be refused at once has been.
    """
    options = options or Options()
    steps = plan.recipe.steps if isinstance(plan.recipe, Steps) else (plan.recipe,)
    if teacher is not None and not any(step.needs_teacher for step in steps):
        raise UserError(f"recipe {plan.recipe.name} does not distil, so a teacher has nothing to say; kl=1 makes it")
    master = load_teacher(teacher, plan.source) if teacher is not None else None
    run = RunDir(plan.out)
    begun = (run.steps or [run]) if options.resume and run.has_run else []
    start = None if init is None or any(step.last.exists() for step in begun) else _start(init, plan)
    words = [*plan.words, "--seed", str(options.seed), "--out", RUN, *(["--teacher", "TEACHER"] if teacher else [])]
    if begun:  # what it started from is in its weights, and in its description
        about = begun[0].read_json("run.json")
        origin: dict[str, Any] = {key: about[key] for key in ("init_epoch", "commands") if key in about}
        is_extended = any(was.recipe().epochs < step.epochs for was, step in zip(begun, steps, strict=False))
        if "commands" in about and is_extended:
            origin["commands"] = [*about["commands"], shlex.join([*words, "--resume"])]
    else:
        origin = {"commands": [shlex.join(words)]}
        if start is not None:
            origin = {"commands": [*start.commands, shlex.join([*words, "--init", start.name])]}
            origin |= {"init_epoch": start.epoch} if start.epoch else {}
    origin["init"] = "" if init is None else str(init.absolute() if name_in(init) is None else init)
    if isinstance(plan.recipe, Steps):
        origin["steps"] = [step.to_json() for step in steps]  # also those whose directories are not there yet
    if plan.data_dir is not None:
        origin["data_dir"] = str(plan.data_dir.absolute())
    name = "" if teacher is None else str(teacher.absolute())
    options = replace(options, teacher=master, teacher_name=name, origin=origin, model=plan.model)

    def network() -> nn.Module:
        made = plan.model.build()
        if start is not None and (fresh := start.give(made)):
            warnings.warn(f"the classifier of {init} has another shape: {', '.join(fresh)} not taken", stacklevel=2)
        tell()
        return made

    return fit(network, plan.source, plan.recipe, plan.out, options)


@dataclass(frozen=True)
class _Start:
    """Weights to start from: what gives them to a network, and how they were made."""

    give: Callable[[nn.Module], list[str]]
    name: str  # in commands
    commands: list[str]
    epoch: str


def _start(init: Path, plan: Plan) -> _Start:
    file, start = packed_file(init), f"{RUN}-START"
    if file is None:
        state, home = load_state(init), run_of(init)
        epoch = f"{state['epoch']} of {state['recipe']['epochs']}"
        commands = renamed(RunDir(home).last_step.read_json("run.json").get("commands", []), start)
        name = str(Path(start) / init.relative_to(home))
        return _Start(lambda network: start_from(network, state), name, commands, epoch)
    graph = read_graph(file)

    def give(network: nn.Module) -> list[str]:
        return restore(network, graph, init, _first_images(plan))

    if (zoo_name := name_in(init)) is None:
        return _Start(give, f"{start}.ftbnn", [], "")
    about = card(zoo_name)  # when this network joins the zoo, another one may have the name
    epochs = " and ".join(re.findall(r"\d+ of \d+", about["epoch"]))
    return _Start(give, f"{start}.ftbnn", renamed(about["commands"], start), epochs)


def renamed(commands: list[str], start: str) -> list[str]:
    """Commands with another name for their run, which ends as a file of that name instead of in the zoo."""
    lines = []
    for line in commands:
        words = [word.replace(RUN, start, 1) if word.startswith(RUN) else word for word in shlex.split(line)]
        lines.append(shlex.join([*words[:3], "-o", f"{start}.ftbnn"] if "--zoo" in words else words))
    return lines


def _first_images(plan: Plan) -> Iterator[Tensor]:
    """Training images, augmented as in training, enough of them for statistics."""
    source = plan.source
    recipe = plan.recipe.steps[0] if isinstance(plan.recipe, Steps) else plan.recipe
    assert source.spec is not None
    augment = augmentation(source.spec, recipe)
    batches = Batches(source.train, source.spec, batch_size=64, shuffle=True, augmentation=augment)
    return first_images(batches.epoch(0))


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
    network = _torchvision_resnet(path, state) if is_foreign else load_run(path).network
    spec = source.spec
    assert spec is not None
    try:
        out = network(torch.zeros(2, spec.channels, spec.image_size, spec.image_size))
    except RuntimeError as error:
        raise UserError(f"the teacher {path} does not take the images of {spec.name}: {first_line(error)}") from error
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
        raise UserError(f"{path} does not fit {name}: {misfit(network, state) or first_line(error)}") from error
    return network.eval()
