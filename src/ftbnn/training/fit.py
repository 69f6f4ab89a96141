"""Training as one call: a network, data, a recipe, a directory."""

import json
import random
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ftbnn import _native
from ftbnn.data.batches import Batches, Split, UserSplit, derive_seed
from ftbnn.data.source import Source, Spec
from ftbnn.errors import UserError, unknown
from ftbnn.training import recipes
from ftbnn.training.backend import resolve
from ftbnn.training.distributed import World, world
from ftbnn.training.loop import Loop
from ftbnn.training.recipe import Recipe
from ftbnn.training.recipes import Steps
from ftbnn.training.run import ModelSpec, RunDir, apply_modes, environment
from ftbnn.training.signals import StopSignals

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
    teacher_name: str = "",
    origin: dict[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Trains `network` and returns the last epoch's scores; everything else is in the run directory `out`.

    `data` is a Source, or two data sets of one's own, (training, test), whose items are (image tensor, label).
    `network` may be a function: it is called after the seed is set. Further settings are those of `Loop`.
    """
    recipe = recipes.find(recipe) if isinstance(recipe, str) else recipe
    run = RunDir(Path(out))
    with world(device) as here, StopSignals() as stop:
        _seed_all(seed)
        module = network if isinstance(network, nn.Module) else network()
        _seed_all(derive_seed(seed, here.rank))
        common = {"seed": seed, "teacher": teacher, "workers": workers, "device": device, "stop": stop, **settings}
        common |= {"model_spec": model_spec or ModelSpec("", {}), "teacher_name": teacher_name, "origin": origin or {}}
        # One process decides for all: a restarted worker goes on with the run that its first life started.
        resume = here.share(resume or (here.restarts > 0 and run.has_run))
        if resume and not here.share(run.has_run):
            raise UserError(f"nothing to resume: {run.path} holds no run; leave --resume out to start one")
        if isinstance(recipe, Recipe):
            return _fit_one(module, data, recipe, run, here=here, resume=resume, **common)
        if not resume and here.is_first:
            run.create()
        return _fit_steps(module, data, recipe, run, here=here, resume=resume, **common)


def _seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - a user's network may draw from it


def _fit_steps(
    module: nn.Module, data: Data, recipe: Steps, run: RunDir, *, here: World, resume: bool, **common: Any
) -> dict[str, Any]:
    """Each step in a directory of its own, starting from the weights that the one before has left in `module`."""
    if resume and here.share((run.path / "recipe.json").exists()):
        raise UserError(f"{run.path} holds a run of one recipe, not of {recipe.name}; choose another --out")
    row: dict[str, Any] = {}
    for number, step in enumerate(recipe.steps):
        step_run = RunDir(run.path / f"step{number}")
        started = here.share(step_run.has_run)
        row = _fit_one(module, data, step, step_run, here=here, resume=resume and started, **common)
    return row


def _fit_one(
    module: nn.Module,
    data: Data,
    recipe: Recipe,
    run: RunDir,
    *,
    here: World,
    stop: StopSignals,
    seed: int,
    resume: bool,
    device: str,
    workers: int,
    model_spec: ModelSpec,
    teacher_name: str,
    origin: dict[str, Any],
    **settings: Any,
) -> dict[str, Any]:
    train, val, facts, augment = _splits(data, recipe)
    apply_modes(module, recipe)
    before = run.recipe().backend if resume and here.is_first else None
    recipe = here.share(resolve(recipe, module, here.device(device), before=before) if here.is_first else None)
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
    with ExitStack() as hold:
        if here.is_first:  # only now: what the loop has refused must not stand in the way of the next try
            if not resume:
                run.create()
            hold.enter_context(run.held())
            about = {"model": asdict(model_spec), "data": facts, "seed": seed, "world": here.size}
            about |= {"teacher": teacher_name, "init": ""} | origin
            _describe(run, recipe, about, resume=resume)
        hold.callback(_native.training.release_blocks)
        here.barrier()
        return loop.run(stop, resume=here.share(resume and run.last.exists()))


def _splits(data: Data, recipe: Recipe) -> tuple[Split, Split, dict[str, Any], str]:
    train, val = (data.train, data.val) if isinstance(data, Source) else data
    counts = {"train_images": len(train), "val_images": len(val)}
    if not isinstance(data, Source):
        if recipe.augment not in ("auto", "none"):
            raise UserError(f"augment={recipe.augment}: data sets of your own bring their own augmentation")
        return train, val, {"name": type(train).__name__, **counts}, "none"
    return train, val, asdict(data.spec) | counts, augmentation(data.spec, recipe)


def augmentation(spec: Spec, recipe: Recipe) -> str:
    """The recipe's, or by default the data's."""
    return spec.augment if recipe.augment == "auto" else recipe.augment


def _describe(run: RunDir, recipe: Recipe, about: dict[str, Any], *, resume: bool) -> None:
    """Writes what the run is; a resumed run must be the same."""
    about = json.loads(json.dumps(about))  # as it will be read back: tuples become lists
    if not resume:
        run.write_json("run.json", about | {"environment": environment()})
        run.write_json("recipe.json", recipe.to_json())
        return
    if difference := recipe.difference(run.recipe()):
        raise UserError(f"a run resumes only with its own recipe; {run.path} differs in {'; '.join(difference)}")
    before = {"init": ""} | run.read_json("run.json")
    for name in ("model", "data", "seed", "teacher", "init"):
        then, now = before.get(name), about[name]
        if then != now:
            if isinstance(then, dict):
                then, now = ({k: v for k, v in d.items() if then.get(k) != about[name].get(k)} for d in (then, now))
            raise UserError(f"{run.path} was started with {name} {then}, not {now}")
    here = environment()
    for name, then, now in (
        ("processes", before.get("world"), about["world"]),
        ("threads", before["environment"].get("threads"), here["threads"]),
        ("kernels", before["environment"].get("isa"), here["isa"]),
    ):
        if then != now and (name != "kernels" or recipe.backend.startswith("native")):
            warnings.warn(
                f"{run.path} ran with {then} {name}, now {now}: results may differ in the last bits", stacklevel=2
            )
    run.write_json("run.json", before | {"resumed": [*before.get("resumed", []), here]})


def with_settings(recipe: Recipe | Steps, settings: dict[str, str]) -> Recipe | Steps:
    """The recipe with `--set` applied; of a multi-step recipe `stepN.key` changes one step, `key` all."""
    if isinstance(recipe, Recipe):
        return recipe.changed(settings)
    names = [f"step{number}" for number in range(len(recipe.steps))]
    own: dict[str, dict[str, str]] = {name: {} for name in names}
    for key, value in settings.items():
        step, dot, setting = key.rpartition(".")
        if dot and step not in own:
            raise unknown("step", step, names)
        for name in [step] if dot else names:
            own[name].setdefault(setting, value)
            if dot:
                own[name][setting] = value
    steps = zip(recipe.steps, own.values(), strict=True)
    return replace(recipe, steps=tuple(step.changed(settings) for step, settings in steps))
