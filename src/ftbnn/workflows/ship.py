"""A trained run as a network of the zoo: the file, and a card with everything measured anew."""

import hashlib
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ftbnn import machine
from ftbnn.bench.rounds import turn
from ftbnn.data import SOURCES, load
from ftbnn.errors import UserError
from ftbnn.files import write_atomically
from ftbnn.json_text import dumps, rounded
from ftbnn.runtime import load as load_file
from ftbnn.training.run import RunDir, load_run, run_of
from ftbnn.training.scores import BEST_ON_TEST
from ftbnn.workflows.deploy import compare_file, export
from ftbnn.workflows.train import RUN
from ftbnn.zoo import FOLDER

TURNS = 10


def ship(run: Path, name: str, data_dir: Path | None, folder: Path = FOLDER, *, about: str = "") -> dict[str, Any]:
    """Writes NAME.ftbnn and NAME.json into `folder`. `run` is a run directory (its best epoch) or a checkpoint; `about`
    tells what the run does not know."""
    if not name.replace("-", "").isalnum() or name != name.lower():
        raise UserError(f"a name of the zoo is of small letters, digits and dashes, not {name!r}")
    found = load_run(run)
    state, spec, home = found.state, found.spec, run_of(run)
    ran = RunDir(Path(state["path"]).parent).read_json("run.json")
    if spec is None or "commands" not in ran:
        raise UserError(f"{run} does not know the command that made it: a card could not say how to make it again")
    entry = SOURCES[spec.name]
    source = load(spec.name, data_dir, image_size=spec.image_size if entry.image_size is None else None)
    where = ["--data-dir", "DIR"] if entry.needs_dir else []
    words = ["ftbnn", "export", str(Path(RUN) / run.relative_to(home)), "--zoo", name, *where]
    commands = [*ran["commands"], shlex.join([*words, *(["--about", about] if about else [])])]
    with TemporaryDirectory() as temporary:  # what is in the zoo stays there until file and card are whole
        file = Path(temporary) / f"{name}.ftbnn"
        report = export(found, file)
        scores, latency, packed = compare_file(run, file, source), _latency_ms(file), file.read_bytes()
    recipe, known = state["recipe"], machine.capabilities()
    earlier = f"{ran['init_epoch']} of earlier training" if "init_epoch" in ran else "the training of a file"
    after = f", after {earlier}" if ran.get("init") else ""
    is_best = Path(state["path"]).name == "best.pt"
    chosen = found.scores.get("chosen", BEST_ON_TEST) if is_best else "the last"
    card = {
        "name": name,
        "about": about,
        "model": ran["model"]["name"],
        "width": ran["model"]["settings"].get("width"),
        **({"stem_bits": bits} if (bits := ran["model"]["settings"].get("stem_bits")) else {}),
        "data": spec.name,
        "input": [spec.channels, spec.image_size, spec.image_size],
        "classes": list(spec.class_names),
        "recipe": recipe["name"].partition("/")[0],
        "epoch": f"{state['epoch']} of {recipe['epochs']}, {chosen}{after}",
        "seed": ran["seed"],
        "teacher": bool(ran["teacher"]),
        **rounded(scores),
        "size_bytes": report.size_bytes,
        "fp32_bytes": report.fp32_bytes,
        "sha256": hashlib.sha256(packed).hexdigest(),
        "latency_ms": rounded(latency),
        "latency_of": f"one image, one thread, {known['isa']}, {known['cpu']}",
        "commands": commands,
        "versions": machine.versions(),
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
