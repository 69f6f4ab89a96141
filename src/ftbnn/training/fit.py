"""Training as one call: a network, data, a recipe, a directory, options."""

import json
import random
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from ftbnn.data import Source, Spec, source_of
from ftbnn.data.batches import Batches, derive_seed, first_images
from ftbnn.data.own import LoaderBatches
from ftbnn.errors import UserError, unknown, wrong_kind
from ftbnn.models.spec import ModelSpec
from ftbnn.nn.layer import check_network
from ftbnn.nn.native import release_memory
from ftbnn.packing.restore import lacks_statistics, measure
from ftbnn.training import recipes
from ftbnn.training.backend import choose
from ftbnn.training.distributed import World, world
from ftbnn.training.loop import Loop, Splits
from ftbnn.training.options import Options
from ftbnn.training.packed import leave_file
from ftbnn.training.recipe import Recipe
from ftbnn.training.recipes import Steps
from ftbnn.training.run import RunDir, environment, load_state
from ftbnn.training.signals import StopSignals
from ftbnn.training.task import lacks_teacher


def fit(
    network: nn.Module | Callable[[], nn.Module],
    data: Any,
    recipe: str | Recipe | Steps = "naive",
    out: str | Path = "runs/run",
    options: Options | None = None,
    **others: NoReturn,
) -> dict[str, Any]:
    """Trains `network`, leaves in it the weights of the epoch that is best on the validation images and returns their
    scores; everything else is in the run directory `out`.

    `data` is a data set's name, a Source, or data sets (items: image tensor, label) or DataLoaders of one's own: one,
    (train, test) or (train, validation, test). Where there is no validation split, the recipe holds one out.
    `network` may be a function: it is called after the seed is set, when the options and the directory are known to do.
    """
    for name in others:
        raise _stray(name)
    options = options or Options()
    recipe = recipes.find(recipe) if isinstance(recipe, str) else recipe
    if not isinstance(options, Options):
        raise wrong_kind("options are an ftbnn.Options", options)
    if not isinstance(recipe, Recipe | Steps):
        raise wrong_kind("a recipe is a name, a Recipe or Steps", recipe)
    if not callable(network):
        check_network(network, "fit")
    source, run = source_of(data), RunDir(Path(out))
    for step in recipe.steps if isinstance(recipe, Steps) else (recipe,):
        if step.needs_teacher and options.teacher is None:
            raise lacks_teacher(step)
    with world(options.device) as here, StopSignals() as stop:
        # One process decides for all: a restarted worker goes on with the run that its first life started.
        resume = here.share(options.resume or (here.restarts > 0 and run.has_run))
        if resume and not here.share(run.has_run):
            raise UserError(f"nothing to resume: {run.path} holds no run")
        if not resume and here.is_first:
            run.check_new()
            run.clear()
        _seed_all(options.seed)
        module = network if isinstance(network, nn.Module) else network()
        check_network(module, "fit")
        _seed_all(derive_seed(options.seed, "rank", here.rank))
        options = replace(options, resume=resume)
        train = _fit_one if isinstance(recipe, Recipe) else _fit_steps
        scores = train(module, source, recipe, run, options, here=here, stop=stop)  # type: ignore[arg-type]
        module.load_state_dict(here.share(load_state(run.path)["model"] if here.is_first else None))
        if here.is_first and not options.model.name:
            why = leave_file(run.last_step, module)
            if why and not options.quiet:
                warnings.warn(f"{run.path} gets no {run.file.name}: {why}", stacklevel=2)
        return scores


def _stray(name: str) -> UserError:
    for argument, kind in (("options", Options), ("recipe", Recipe)):
        if name in kind.__dataclass_fields__:
            return UserError(f"fit has no argument {name}: give {argument}=ftbnn.{kind.__name__}({name}=...)")
    return unknown("argument of fit", name, ["network", "data", "recipe", "out", "options"])


def _seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - a user's network may draw from it


def _fit_steps(
    module: nn.Module, source: Source, recipe: Steps, run: RunDir, options: Options, *, here: World, stop: StopSignals
) -> dict[str, Any]:
    """Each step in a directory of its own, starting from the weights that the one before has left in `module`."""
    if options.resume and here.share((run.path / "recipe.json").exists()):
        raise UserError(f"{run.path} holds a run of one recipe, not of {recipe.name}; choose another directory")
    scores: dict[str, Any] = {}
    for number, step in enumerate(recipe.steps):
        step_run = RunDir(run.path / f"step{number}")
        has_followers = here.is_first and len(run.steps) > number + 1
        if here.share(has_followers and step.epochs > step_run.recipe().epochs):
            raise UserError(f"step{number} of {run.path} cannot be extended: the steps after it began with its weights")
        own = replace(options, resume=options.resume and here.share(step_run.has_run))
        scores = _fit_one(module, source, step, step_run, own, here=here, stop=stop)
    return scores


def _fit_one(
    module: nn.Module, source: Source, recipe: Recipe, run: RunDir, options: Options, *, here: World, stop: StopSignals
) -> dict[str, Any]:
    if options.resume and here.share(run.chose_on_test if here.is_first else None):
        recipe, source = replace(recipe, validation=0.0), replace(source, val=source.test)
    source = source.with_validation(recipe.validation)
    device = here.device(options.device)
    began = run.recipe() if options.resume and here.is_first else None
    before = None if began is None else began.backend
    choice = here.share(choose(recipe, module, device, before=before) if here.is_first else None)
    recipe = replace(recipe, backend=choice.backend)
    if here.is_first and not options.quiet:
        print(f"backend {choice.backend}: {choice.why}", file=sys.stderr, flush=True)
    splits, is_begun = _splits(source, recipe, options, here), here.share(options.resume and run.last.exists())
    if not is_begun and lacks_statistics(module):
        measure(module.to(device), (images.to(device) for images in first_images(splits.train.epoch(0))))
    loop = Loop(module, splits, recipe, run, options, world=here, device=device)
    with ExitStack() as hold:
        hold.callback(loop.close)
        if here.is_first:  # only now: what the loop has refused must not stand in the way of the next try
            run.create()
            hold.enter_context(run.held())
            about = {
                "model": asdict(options.model),
                "data": _facts(source),
                "seed": options.seed,
                "world": here.size,
                "teacher": options.teacher_name,
                "init": "",
                **options.origin,
            }
            _describe(run, recipe, about, resume=options.resume)
            if began is not None and options.optimizer is None and options.scheduler is None:
                _note_extension(run, recipe, began.epochs)
        hold.callback(release_memory)
        here.barrier()
        return loop.run(stop, resume=is_begun)


def _splits(source: Source, recipe: Recipe, options: Options, here: World) -> Splits:
    if isinstance(source.train, DataLoader):
        if here.size > 1:
            raise UserError("a DataLoader cannot be shared among processes: give its data set")
        if source.val is None and recipe.validation > 0:
            warnings.warn(
                "a DataLoader is not split: without one for validation the last epoch is chosen", stacklevel=4
            )
        return _evaluated(LoaderBatches(source.train, options.seed), source, LoaderBatches)
    shard: dict[str, Any] = {"rank": here.rank, "world": here.size, "workers": options.workers}
    if source.spec is None and recipe.augment not in ("auto", "none"):
        raise UserError(f"augment={recipe.augment}: data sets of your own bring their own augmentation")
    augment = "none" if source.spec is None else augmentation(source.spec, recipe)
    shuffled: dict[str, Any] = {"shuffle": True, "augmentation": augment, "seed": options.seed}
    train = Batches(source.train, source.spec, batch_size=recipe.batch_size, **shuffled, **shard)
    least = 2 * here.size

    def plain(split: Any) -> Batches:
        return Batches(split, source.spec, batch_size=max(recipe.batch_size, least), shuffle=False, **shard)

    return _evaluated(train, source, plain)


def _evaluated(train: Batches | LoaderBatches, source: Source, plain: Callable[[Any], Any]) -> Splits:
    """Beside the training batches those of the other splits, of one that is both once."""
    val, test = (None if split is None else plain(split) for split in (source.val, source.test))
    return Splits(train, val, val if source.val is source.test else test)


def _facts(source: Source) -> dict[str, Any]:
    facts = {"name": source.name} if source.spec is None else asdict(source.spec)
    counts = {"train_images": source.train, "val_images": source.val, "test_images": source.test}
    return facts | {name: None if split is None else _count(split) for name, split in counts.items()}


def _count(split: Any) -> int:
    return LoaderBatches(split).images if isinstance(split, DataLoader) else len(split)


def augmentation(spec: Spec, recipe: Recipe) -> str:
    """The recipe's, or by default the data's."""
    return spec.augment if recipe.augment == "auto" else recipe.augment


def _note_extension(run: RunDir, recipe: Recipe, before: int) -> None:
    """A rate that depends on the number of epochs was another one so far: the result is no run of that length."""
    if recipe.epochs > before and recipe.schedule != "constant":
        warnings.warn(
            f"{run.path} is extended from {before} to {recipe.epochs} epochs: from here on its rate is that of "
            f"{recipe.epochs} epochs (schedule={recipe.schedule}), before it was that of {before}",
            stacklevel=2,
        )


def _describe(run: RunDir, recipe: Recipe, about: dict[str, Any], *, resume: bool) -> None:
    """Writes what the run is; a resumed run must be the same, but it may have more epochs than before."""
    about = json.loads(json.dumps(about))  # as it will be read back: tuples become lists
    if not resume:
        run.write_json("run.json", about | {"environment": environment()})
        run.write_json("recipe.json", recipe.to_json())
        return
    then = run.recipe()
    if recipe.epochs > then.epochs:
        then = replace(then, epochs=recipe.epochs)
    if difference := recipe.difference(then):
        raise UserError(
            f"{run.path} goes on with its own recipe, or more epochs; this differs in {'; '.join(difference)}"
        )
    before = {"init": ""} | run.read_json("run.json")
    _check_same(run, before, about)
    here = environment()
    for name, was, now in (
        ("processes", before.get("world"), about["world"]),
        ("threads", before["environment"].get("threads"), here["threads"]),
        ("kernels", before["environment"].get("isa"), here["isa"]),
    ):
        if was != now and (name != "kernels" or recipe.backend.startswith("native")):
            warnings.warn(
                f"{run.path} ran with {was} {name}, now {now}: results may differ in the last bits", stacklevel=2
            )
    renewed = {key: about[key] for key in ("commands", "steps", "data_dir") if key in about}
    run.write_json("run.json", before | renewed | {"resumed": [*before.get("resumed", []), here]})
    run.write_json("recipe.json", run.read_json("recipe.json") | {"epochs": recipe.epochs})


def _check_same(run: RunDir, before: dict[str, Any], about: dict[str, Any]) -> None:
    """Network, data, seed, teacher and first weights are those the run was started with."""
    for name in ("model", "data", "seed", "teacher", "init"):
        then: Any = before.get(name)
        now = about[name]
        if then and name in ("teacher", "init") and Path(then).resolve() == Path(now).resolve():
            continue
        if name == "model":  # an older run keeps a file's path as it was typed
            then = asdict(ModelSpec(**then))
        if name == "data" and "test_images" not in then:  # an older run, which had the test images for validation
            then = {key: value for key, value in then.items() if key != "val_images"}
        if isinstance(then, dict):  # of facts that both know
            then, now = ({key: d[key] for key in sorted(then.keys() & now.keys())} for d in (then, now))
            then, now = ({key: d[key] for key in d if then[key] != now[key]} for d in (then, now))
        if then != now:
            raise UserError(f"{run.path} was started with {name} {then}, not {now}")


def with_settings(recipe: Recipe | Steps, settings: dict[str, str]) -> Recipe | Steps:
    """The recipe with `key=value` texts applied; of a multi-step recipe `stepN.key` changes one step, `key` all."""
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
