"""Going on with a run: with its own network, data and recipe, but for what is changed."""

from pathlib import Path
from typing import Any

from ftbnn.data import SOURCES, load
from ftbnn.errors import UserError
from ftbnn.models.spec import ModelSpec
from ftbnn.own import resolved
from ftbnn.training import Recipe, Steps, recipes, with_settings
from ftbnn.training.run import RunDir
from ftbnn.workflows.train import Plan


def go_on(
    out: Path,
    *,
    model: str | None = None,
    data: str | None = None,
    data_dir: Path | None = None,
    recipe: str | None = None,
    settings: dict[str, str] | None = None,
    image_size: int | None = None,
    **network: Any,
) -> Plan:
    """The plan of the run in `out`, to go on with it.

    What is given must be what it was started with, `network` being width, stem and so on. But `settings` change its
    recipe, of which `fit` takes more epochs, and its data may lie elsewhere now.
    """
    run = RunDir(out)
    about = run.last_step.read_json("run.json")
    was = ModelSpec(**about["model"])
    if not was.name:
        raise UserError(f"the network of {out} was made in Python: go on there, with fit and Options(resume=True)")
    facts, kept = about["data"], _recipe(run, about, recipe)
    for what, then, now in (
        ("model", was.name, None if model is None else resolved(model)),
        ("data", facts["name"], data),
        ("recipe", kept.name.partition("/")[0], recipe),
        ("image size", facts["image_size"], image_size),
        *((key.replace("_", " "), was.settings.get(key), _whole(value)) for key, value in network.items()),
    ):
        if now is not None and then != now:
            raise UserError(f"{out} was started with {what} {'of its own' if then is None else then}, not {now}")
    where = data_dir or _path(about.get("data_dir"))
    free_size = facts["image_size"] if SOURCES[facts["name"]].image_size is None else None
    changes = [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}")]
    return Plan(
        was,
        load(facts["name"], where, image_size=free_size),
        with_settings(kept, settings or {}),
        out,
        words=("ftbnn", "train", *changes),
        data_dir=where,
        seed=about["seed"],
        teacher=_path(about["teacher"]),
        init=_path(about.get("init")),
    )


def _whole(value: Any) -> Any:
    """A method of the user's own as it is kept."""
    return resolved(value) if isinstance(value, str) else value


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _recipe(run: RunDir, about: dict[str, Any], named: str | None) -> Recipe | Steps:
    """The run's own; of a multi-step run with the steps that have not begun yet."""
    if not run.steps:
        return run.recipe()
    begun = tuple(step.recipe() for step in run.steps)
    name = begun[0].name.partition("/")[0]
    if "steps" in about:
        steps = tuple(Recipe.from_json(values) for values in about["steps"])
    elif named is not None and isinstance(found := recipes.find(named), Steps):
        steps = found.steps
    else:
        raise UserError(f"{run.path} does not know its later steps: give recipe (recipe) and all settings (set) again")
    return Steps(name, begun + steps[len(begun) :])
