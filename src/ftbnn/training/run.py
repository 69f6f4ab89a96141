"""The run directory: what was asked for, what came of it, and how to get the network back.

run.json        model, data, seed, environment, commit       recipe.json   the resolved recipe
metrics.jsonl   one row per epoch and per N steps            tensorboard/  the same, for TensorBoard
last.pt         everything needed to go on                   best.pt       the weights of the best epoch
.lock           held by the process that trains
"""

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ftbnn import _native
from ftbnn.errors import UserError
from ftbnn.files import locked, write_atomically
from ftbnn.models import build
from ftbnn.models.own import is_own, load_own
from ftbnn.nn import BConv, Sign
from ftbnn.training import checkpoint
from ftbnn.training.backend import isa
from ftbnn.training.recipe import Recipe


@dataclass(frozen=True)
class ModelSpec:
    """How a network was made, so that it can be made again. `name` is empty for a module handed over in Python."""

    name: str
    settings: dict[str, Any]

    def build(self) -> nn.Module:
        if not self.name:
            raise UserError("this run's network was made in Python; build it there and load the weights from best.pt")
        given = {key: value for key, value in self.settings.items() if value is not None}
        return load_own(self.name, **given) if is_own(self.name) else build(self.name, **given)


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
    def has_run(self) -> bool:
        """True once a run, of one recipe or of several steps, has left something here that must not be lost."""
        return bool(self.steps) or (self.path / "recipe.json").exists()

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
                raise UserError(f"another process is training in {self.path}; wait for it, or choose another --out")
            yield

    def create(self) -> None:
        """Makes the directory. A run that is there already is never overwritten."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise UserError(f"{self.path} is a file; --out takes a directory for the run")
            if self.has_run:
                raise UserError(f"{self.path} holds a run already: go on with --resume, or choose another --out")
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
    packages = ("ftbnn", "torch", "numpy", "pillow")
    return {
        "command": shlex.join(["ftbnn", *sys.argv[1:]]),
        "commit": _commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: metadata.version(name) for name in packages},
        "cpu": _native.cpu_name(),
        "isa": isa(),
        "threads": torch.get_num_threads(),
        "cores": len(os.sched_getaffinity(0)),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _commit() -> str | None:
    """The commit of the sources that run, with `+` if they were changed; None outside a checkout."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + (
            "+" if git("status", "--porcelain", "--untracked-files=no", str(here)) else ""
        )
    except (OSError, subprocess.SubprocessError):
        return None


def load_state(path: str | Path) -> dict[str, Any]:
    """The checkpoint of a run directory (its best epoch) or of a file; its `path` is that of the file.

    Of a multi-step run that is the last step's; one whose weights are real still has no binary network to give.
    """
    path = Path(path)
    if path.is_dir():
        run = RunDir(path).last_step
        if run.path != path and run.recipe().weights == "real":
            raise UserError(f"{path} is at {run.path.name}, where weights are real; wait, or give {run.best}")
        path = run.best
    state = checkpoint.load(path)
    if not {"model", "model_spec", "recipe", "spec", "epoch"} <= set(state):
        raise UserError(f"{path} is not a checkpoint of a training run")
    return state | {"path": str(path)}


def load_network(path: str | Path) -> tuple[nn.Module, dict[str, Any]]:
    """The trained network of a run directory or of a checkpoint file, as `load_state` finds it, and its checkpoint."""
    state = load_state(path)
    spec = ModelSpec(**state["model_spec"])
    network = spec.build()
    try:
        network.load_state_dict(state["model"])
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the weights of {state['path']} do not fit {spec.name}: {reason}") from error
    apply_modes(network, Recipe.from_json(state["recipe"]))
    return network.eval(), state


def apply_modes(network: nn.Module, recipe: Recipe) -> None:
    """Sets which parts are binary, where the recipe says so."""
    for module in network.modules():
        if isinstance(module, Sign) and recipe.activations != "model":
            module.mode = recipe.activations
        elif isinstance(module, BConv) and recipe.weights != "model":
            module.mode = recipe.weights
