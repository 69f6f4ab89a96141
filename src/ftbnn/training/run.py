"""The run directory: what was asked for, what came of it, and how to get the network back.

run.json        model, data, seed, environment, commit       recipe.json   the resolved recipe
metrics.jsonl   one row per epoch and per N steps            tensorboard/  the same, for TensorBoard
last.pt         everything needed to go on                   best.pt       the weights of the best epoch
scores.json     of the chosen weights on all splits          best.ftbnn    of a network made in Python: its file
.lock           held by the process that trains
"""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ftbnn import machine
from ftbnn.data.source import Spec
from ftbnn.errors import UserError, first_line
from ftbnn.files import locked, write_atomically
from ftbnn.models.spec import ModelSpec
from ftbnn.nn import set_mode
from ftbnn.training import checkpoint
from ftbnn.training.recipe import Recipe


@dataclass(frozen=True)
class RunDir:
    """Paths and small files of a run."""

    path: Path

    @property
    def last(self) -> Path:
        return self.path / "last.pt"

    @property
    def best(self) -> Path:
        return self.path / "best.pt"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def file(self) -> Path:
        return self.path / "best.ftbnn"

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        write_atomically(self.path / name, (json.dumps(value, indent=2) + "\n").encode())

    def read_json(self, name: str) -> dict[str, Any]:
        file = self.path / name
        try:
            value = json.loads(file.read_text())
        except FileNotFoundError:
            raise UserError(f"{self.path} is not a run: it has no {name}") from None
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {file}: {error}") from error
        if not isinstance(value, dict):
            raise UserError(f"cannot read {file}: not an object")
        return value

    def recipe(self) -> Recipe:
        return Recipe.from_json(self.read_json("recipe.json"))

    @property
    def chose_on_test(self) -> bool:
        """Whether the run was begun before there were validation splits: the test images chose its best epoch."""
        return "validation" not in self.read_json("recipe.json")

    def scores(self) -> dict[str, Any]:
        """Of the chosen weights on the splits there are; empty before the run's end."""
        return self.read_json("scores.json") if (self.path / "scores.json").exists() else {}

    @property
    def has_run(self) -> bool:
        """True once a run, of one recipe or of several steps, has begun here."""
        return bool(self.steps) or (self.path / "recipe.json").exists()

    @property
    def is_kept(self) -> bool:
        """True once a run has left something here that must not be lost: weights, scores, or the row of an epoch."""
        return any(
            any((run.path / name).exists() for name in (run.last.name, run.best.name, run.file.name, "scores.json"))
            or (run.metrics.exists() and '"kind": "epoch"' in run.metrics.read_text())
            for run in (self, *self.steps)
        )

    @property
    def steps(self) -> list["RunDir"]:
        """The steps that a multi-step run has begun, in order; none of a run of one recipe."""
        found = [file.parent for file in self.path.glob("step*/recipe.json") if file.parent.name[4:].isdigit()]
        return [RunDir(path) for path in sorted(found, key=lambda path: int(path.name[4:]))]

    @property
    def last_step(self) -> "RunDir":
        """The last step that a multi-step run has begun; itself, if it is a run of one recipe."""
        return self.steps[-1] if self.steps else self

    @contextmanager
    def held(self) -> Iterator[None]:
        """For one process at a time: two would overwrite each other's checkpoints and mix their metrics."""
        with locked(self.path / ".lock", wait=False) as is_ours:
            if not is_ours:
                raise UserError(f"another process is training in {self.path}; wait for it, or choose another directory")
            yield

    def check_new(self) -> None:
        """A run that is there already is never overwritten."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; a run needs a directory")
        if self.is_kept:
            raise UserError(f"{self.path} holds a run already: go on with it (resume) or choose another directory")

    def clear(self) -> None:
        """Takes away what a run wrote that ended before its first checkpoint: the next one may be of another form."""
        for run in (self, *self.steps):
            if (run.path / "recipe.json").exists():
                with run.held():
                    for name in ("recipe.json", "run.json", run.metrics.name):
                        (run.path / name).unlink(missing_ok=True)

    def create(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot create {self.path}: {error.strerror or error}") from error


def run_of(path: Path) -> Path:
    """The run that a directory or a checkpoint belongs to; of one step of a multi-step run the whole."""
    run = path if path.is_dir() else path.parent
    steps = [step.path for step in RunDir(run.parent).steps]
    return run.parent if run in steps and steps[0].name == "step0" else run


def environment() -> dict[str, Any]:
    """What a result may depend on beside the recipe."""
    return machine.describe() | {
        "command": shlex.join(["ftbnn", *sys.argv[1:]]),
        "commit": machine.commit(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def load_state(path: str | Path) -> dict[str, Any]:
    """The checkpoint of a run directory (its best epoch, or its last where none was chosen) or of a file; its `path` is
    that of the file.

    Of a multi-step run that is the last step's; one whose weights are real still has no binary network to give.
    """
    path = Path(path)
    if path.is_dir():
        run = RunDir(path).last_step
        if run.path != path and run.recipe().weights == "real":
            raise UserError(f"{path} is at {run.path.name}, where weights are real; wait, or give {run.best}")
        path = run.best if run.best.exists() or not run.last.exists() else run.last
    state = checkpoint.load(path)
    if not {"model", "model_spec", "recipe", "spec", "epoch"} <= set(state):
        raise UserError(f"{path} is not a checkpoint of a training run")
    return state | {"path": str(path)}


@dataclass(frozen=True)
class Run:
    """A run read back: its network with the chosen weights, their scores, and what the images are."""

    network: nn.Module
    scores: dict[str, Any]
    spec: Spec | None
    recipe: Recipe
    state: dict[str, Any]  # the checkpoint

    @property
    def name(self) -> str:
        """Of the network, without the folder of a user's own, or of the run's directory."""
        return Path(self.state["model_spec"]["name"]).name or run_of(Path(self.state["path"])).name


def load_run(path: str | Path, network: nn.Module | None = None) -> Run:
    """The run of a directory, as `load_state` finds its weights, or of a checkpoint file.

    A network that was made in Python must be handed over, of any weights: nothing in a run is executed.
    """
    state = load_state(path)
    made = ModelSpec(**state["model_spec"])
    if network is None:
        if not made.name:
            raise UserError(f"the network of {path} was made in Python: hand it over, load_run(path, network)")
        if (file := made.lost_file) is not None:
            raise UserError(
                f"the network of {path} was made by {file}, which is not there: bring it back, or hand the network "
                "over in Python, load_run(path, network)"
            )
        network = made.build()
    try:
        network.load_state_dict(state["model"])
    except RuntimeError as error:
        what, why = made.name or "this network", misfit(network, state["model"]) or first_line(error)
        raise UserError(f"the weights of {state['path']} do not fit {what}: {why}") from error
    recipe = Recipe.from_json(state["recipe"])
    apply_modes(network, recipe)
    spec = None if state["spec"] is None else Spec.from_json(state["spec"])
    scores = RunDir(Path(state["path"]).parent).scores()
    if scores.get("epoch") != state["epoch"]:  # those of other weights, or of a run that is not at its end
        scores = state.get("scores", {})
    return Run(network.eval(), scores, spec, recipe, state)


def misfit(network: nn.Module, weights: Mapping[str, Any], keeps: Sequence[str] = ()) -> str:
    """How weights are of another network, by their first parameter that is; empty if they are not. Parameters that the
    network `keeps` may differ in shape."""
    own = network.state_dict()
    if stray := next((name for name in (*weights, *own) if name not in own or name not in weights), None):
        return f"{stray} is only {'there' if stray in weights else 'here'}"
    for name, tensor in own.items():
        here, there = list(tensor.shape), list(getattr(weights[name], "shape", ()))
        if name not in keeps and here != there:
            return f"its {name} is {there}, here it is {here}"
    return ""


def apply_modes(network: nn.Module, recipe: Recipe) -> None:
    """Sets which parts are binary, where the recipe says so."""
    wanted = {"activations": recipe.activations, "weights": recipe.weights}
    set_mode(network, **{role: None if mode == "model" else mode for role, mode in wanted.items()})
