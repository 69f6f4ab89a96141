"""Training as one call: a network, data, a recipe, a directory."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ftbnn.data.batches import Batches, Split, UserSplit
from ftbnn.data.source import Source
from ftbnn.errors import UserError
from ftbnn.training import checkpoint, recipes
from ftbnn.training.distributed import World, world
from ftbnn.training.loop import Loop
from ftbnn.training.recipe import Recipe
from ftbnn.training.recipes import Steps
from ftbnn.training.run import ModelSpec, RunDir, apply_modes, environment

Data = Source | tuple[UserSplit, UserSplit]


def fit(
    network: nn.Module | Callable[[], nn.Module],
    data: Data,
    recipe: str | Recipe | Steps,
    out: str | Path,
    *,
    seed: int = 0,
    resume: bool = False,
    teacher: nn.Module | None = None,
    device: str = "auto",
    workers: int = 0,
    model_spec: ModelSpec | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Trains `network` and returns the last epoch's scores; everything else is in the run directory `out`.

    `data` is a Source, or two data sets of one's own, (training, test), whose items are (image tensor, label).
    `network` may be a function: it is called after the seed is set. Further settings are those of `Loop`.
    """
    recipe = recipes.find(recipe) if isinstance(recipe, str) else recipe
    run = RunDir(Path(out))
    torch.manual_seed(seed)
    module = network if isinstance(network, nn.Module) else network()
    spec = model_spec or ModelSpec("", {})
    with world(device) as here:
        common = {"seed": seed, "teacher": teacher, "workers": workers, "model_spec": spec, **settings}
        resume = resume or here.restarts > 0
        if isinstance(recipe, Recipe):
            return _fit_one(module, data, recipe, run, here, device=device, resume=resume, **common)
        return _fit_steps(module, data, recipe, run, here, device=device, resume=resume, **common)


def _fit_steps(
    module: nn.Module, data: Data, recipe: Steps, run: RunDir, here: World, *, resume: bool, **common: Any
) -> dict[str, Any]:
    """Each step in a directory of its own, starting from the last weights of the one before."""
    row: dict[str, Any] = {}
    if resume and here.restarts == 0 and not (run.path / "step0" / "recipe.json").exists():
        raise UserError(f"nothing to resume: {run.path} holds no run; leave --resume out to start one")
    for number, step in enumerate(recipe.steps):
        step_run = RunDir(run.path / f"step{number}")
        if number > 0:
            module.load_state_dict(checkpoint.load(run.path / f"step{number - 1}" / "last.pt")["model"])
        started = (step_run.path / "recipe.json").exists()
        row = _fit_one(module, data, step, step_run, here, resume=resume and started, **common)
    return row


def _fit_one(
    module: nn.Module,
    data: Data,
    recipe: Recipe,
    run: RunDir,
    here: World,
    *,
    seed: int,
    resume: bool,
    device: str,
    workers: int,
    model_spec: ModelSpec,
    **settings: Any,
) -> dict[str, Any]:
    exists = (run.path / "recipe.json").exists()
    if resume and not exists and here.restarts == 0:
        raise UserError(f"nothing to resume: {run.path} holds no run; leave --resume out to start one")
    train, val, facts, augment = _splits(data, recipe)
    if here.is_first:
        _describe(run, recipe, model_spec, facts, seed, resume=resume and exists)
    here.barrier()
    apply_modes(module, recipe)
    shard: dict[str, Any] = {"rank": here.rank, "world": here.size, "workers": workers}
    spec = data.spec if isinstance(data, Source) else None
    loop = Loop(
        module,
        Batches(train, spec, batch_size=recipe.batch_size, shuffle=True, augmentation=augment, seed=seed, **shard),
        Batches(val, spec, batch_size=max(recipe.batch_size, 2 * here.size), shuffle=False, **shard),
        recipe,
        run,
        world=here,
        device=here.device(device),
        model_spec=model_spec,
        **settings,
    )
    return loop.run(resume=resume and run.last.exists())


def _splits(data: Data, recipe: Recipe) -> tuple[Split, Split, dict[str, Any], str]:
    if not isinstance(data, Source):
        if recipe.augment not in ("auto", "none"):
            raise UserError(f"augment={recipe.augment}: data sets of your own bring their own augmentation")
        return data[0], data[1], {"name": type(data[0]).__name__}, "auto"
    augment = data.spec.augment if recipe.augment == "auto" else recipe.augment
    return data.train, data.val, asdict(data.spec), augment


def _describe(run: RunDir, recipe: Recipe, model: ModelSpec, data: dict[str, Any], seed: int, *, resume: bool) -> None:
    """Writes what the run is; a resumed run must be the same."""
    if not resume:
        run.create()
        run.write_json("run.json", {"model": asdict(model), "data": data, "seed": seed, "environment": environment()})
        run.write_json("recipe.json", recipe.to_json())
        return
    if difference := recipe.difference(run.recipe()):
        raise UserError(f"a run resumes only with its own recipe; {run.path} differs in {'; '.join(difference)}")
    before = run.read_json("run.json")
    for name, now in (("model", asdict(model)), ("seed", seed)):
        if before[name] != now:
            raise UserError(f"{run.path} was started with {name} {before[name]}, not {now}")
    if before["data"]["name"] != data["name"]:
        raise UserError(f"{run.path} was trained on {before['data']['name']}, not {data['name']}")


def with_settings(recipe: Recipe | Steps, settings: dict[str, str]) -> Recipe | Steps:
    """The recipe with `--set` applied; of a multi-step recipe `stepN.key` changes one step, `key` all."""
    if isinstance(recipe, Recipe):
        return recipe.changed(settings)
    common = {key: value for key, value in settings.items() if not key.startswith("step")}
    steps = []
    for number, step in enumerate(recipe.steps):
        prefix = f"step{number}."
        own = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
        steps.append(step.changed(common | own))
    return replace(recipe, steps=tuple(steps))
