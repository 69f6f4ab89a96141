"""A trained run as a network of the zoo: the file, and a card with everything measured anew."""

import hashlib
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ftbnn import _native
from ftbnn.bench.rounds import turn
from ftbnn.data import SOURCES, load
from ftbnn.errors import UserError
from ftbnn.experiments.deploying import compare_file, export_run
from ftbnn.experiments.result import dumps, rounded
from ftbnn.files import write_atomically
from ftbnn.nn import stem_for
from ftbnn.runtime import load as load_file
from ftbnn.training import RECIPES, Recipe, Steps
from ftbnn.training.run import RunDir, environment, load_network, run_of
from ftbnn.zoo import FOLDER

TURNS = 10


def ship(run: Path, name: str, data_dir: Path | None, folder: Path = FOLDER, *, about: str = "") -> dict[str, Any]:
    """Writes NAME.ftbnn and NAME.json into `folder`. `run` is a run directory (its best epoch) or a checkpoint; `about`
    tells what the run does not know."""
    if not name.replace("-", "").isalnum() or name != name.lower():
        raise UserError(f"a name of the zoo is of small letters, digits and dashes, not {name!r}")
    _, state = load_network(run)
    home = run_of(run)
    ran = RunDir(Path(state["path"]).parent).read_json("run.json")
    spec = state["spec"]
    source = load(spec["name"], data_dir, image_size=_image_size(spec))
    export = ["ftbnn", "export", str(Path("RUN") / run.relative_to(home)), "--zoo", name, *_where(spec["name"])]
    export += ["--about", about] if about else []
    commands = [*retrain_commands(home), shlex.join(export)]
    with TemporaryDirectory() as room:  # what is in the zoo stays there until file and card are whole
        file = Path(room) / f"{name}.ftbnn"
        report = export_run(run, file)
        scores, latency, packed = compare_file(run, file, source), _latency_ms(file), file.read_bytes()
    recipe = state["recipe"]
    earlier = f"{ran['init_epoch']} of earlier training" if "init_epoch" in ran else "the training of a file"
    after = f", after {earlier}" if ran.get("init") else ""
    chosen = "best by test accuracy" if Path(state["path"]).name == "best.pt" else "the last"
    card = {
        "name": name,
        "about": about,
        "model": ran["model"]["name"],
        "width": ran["model"]["settings"].get("width"),
        "data": spec["name"],
        "input": [spec["channels"], spec["image_size"], spec["image_size"]],
        "classes": list(spec["class_names"]),
        "recipe": recipe["name"].partition("/")[0],
        "epoch": f"{state['epoch']} of {recipe['epochs']}, {chosen}{after}",
        "seed": ran["seed"],
        "teacher": bool(ran["teacher"]),
        **rounded(scores),
        "size_bytes": report["size_bytes"],
        "fp32_bytes": report["fp32_bytes"],
        "sha256": hashlib.sha256(packed).hexdigest(),
        "latency_ms": rounded(latency),
        "latency_of": f"one image, one thread, {_native.isa_in_use()}, {_native.cpu_name()}",
        "commands": commands,
        "versions": environment()["versions"],
        "recipe_settings": recipe,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.ftbnn", packed)
    write_atomically(folder / f"{name}.json", (dumps(card) + "\n").encode())
    return card | {"path": str(folder / f"{name}.ftbnn")}


def _latency_ms(file: Path) -> float:
    model = load_file(file, threads=1)
    image = np.zeros((1, *model.input_shape), np.float32)
    return 1e3 * min(min(turn(lambda: model(image))) for _ in range(TURNS))


def _image_size(spec: dict[str, Any]) -> int | None:
    return spec["image_size"] if SOURCES[spec["name"]].image_size is None else None


def _where(data: str) -> list[str]:
    return ["--data-dir", "DIR"] if SOURCES[data].needs_dir else []


def retrain_commands(run: Path, out: str = "RUN") -> list[str]:
    """The `ftbnn train` lines that make a run again, first those of the run it started from (`--init`)."""
    about = RunDir(run).last_step.read_json("run.json")
    settings, data = about["model"]["settings"], about["data"]
    words = ["ftbnn", "train", about["model"]["name"], "--data", data["name"], *_where(data["name"])]
    if (side := _image_size(data)) is not None:
        words += ["--image-size", str(side)]
    if settings.get("width"):
        words += ["--width", str(settings["width"])]
    if settings.get("stem") and settings["stem"] != stem_for(data["image_size"]):
        words += ["--stem", settings["stem"]]
    steps = RunDir(run).steps
    recipes = [step.recipe() for step in steps] or [RunDir(run).recipe()]
    name = recipes[0].name.partition("/")[0]
    words += ["--recipe", name, "--seed", str(about["seed"]), "--out", out]
    known = RECIPES.get(name)
    originals = known.steps[: len(recipes)] if isinstance(known, Steps) else (known,) * len(recipes)
    for number, (recipe, original) in enumerate(zip(recipes, originals, strict=True)):
        prefix = f"step{number}." if steps else ""
        words += [word for change in _changes(recipe, original) for word in ("--set", prefix + change)]
    words += ["--teacher", "TEACHER"] if about["teacher"] else []
    if not (init := about.get("init")):
        return [shlex.join(words)]
    if (init := Path(init)).suffix == ".ftbnn" or "init_commands" in about:
        before = renamed(about.get("init_commands", []), f"{out}-START")
        return [*before, shlex.join([*words, "--init", f"{out}-START.ftbnn"])]
    earlier, start = run_of(init), Path(f"{out}-START")
    before = retrain_commands(earlier, str(start)) if RunDir(earlier).has_run else []
    return [*before, shlex.join([*words, "--init", str(start / init.relative_to(earlier))])]


def renamed(commands: list[str], start: str) -> list[str]:
    """The commands of a card with another name for its run, which ends as a file of that name instead of in the zoo."""
    lines = []
    for line in commands:
        words = [word.replace("RUN", start, 1) if word.startswith("RUN") else word for word in shlex.split(line)]
        lines.append(shlex.join([*words[:3], "-o", f"{start}.ftbnn"] if "--zoo" in words else words))
    return lines


def _changes(recipe: Recipe, original: Recipe | None) -> list[str]:
    before = original.to_json() if original is not None else {}
    now = {key: value for key, value in recipe.to_json().items() if key != "name" and value != before.get(key)}
    return [f"{key}={_text(value)}" for key, value in now.items()]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()
