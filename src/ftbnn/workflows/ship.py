"""A trained run as a network of the zoo: the file, and a card with everything measured anew.

Of a file that is in the zoo already the card alone is renewed: what the file and its data tell, without the run.
"""

import hashlib
import json
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch import nn

from ftbnn import machine
from ftbnn.bench.rounds import turn
from ftbnn.budget import count
from ftbnn.data import SOURCES, Source, load
from ftbnn.errors import UserError
from ftbnn.files import write_atomically
from ftbnn.json_text import dumps, rounded
from ftbnn.models import build
from ftbnn.models.skeleton import skeleton
from ftbnn.nn import stem_for
from ftbnn.runtime import load as load_file
from ftbnn.training.run import RunDir, load_run, run_of
from ftbnn.training.scores import BEST_ON_TEST
from ftbnn.workflows.deploy import compare_file, evaluate_file, export
from ftbnn.workflows.train import RUN
from ftbnn.zoo import FOLDER

TURNS = 10
SAME = 0.35  # points of accuracy that another order of sums may make: an image of a few hundred


def ship(
    run: Path, name: str, data_dir: Path | None, folder: Path = FOLDER, *, about: str = "", licence: str = ""
) -> dict[str, Any]:
    """Writes NAME.ftbnn and NAME.json into `folder`. `run` is a run directory (its best epoch) or a checkpoint; `about`
    and the data's `licence` tell what the run does not know."""
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
    said = [word for key, text in (("--about", about), ("--licence", licence)) if text for word in (key, text)]
    commands = [*ran["commands"], shlex.join([*words, *said])]
    with TemporaryDirectory() as temporary:  # what is in the zoo stays there until file and card are whole
        file = Path(temporary) / f"{name}.ftbnn"
        report = export(found, file)
        scores, latency, packed = compare_file(run, file, source), _latency_ms(file), file.read_bytes()
        told = _told_by(file, found.network, source)
    recipe, known = state["recipe"], machine.capabilities()
    earlier = f"{ran['init_epoch']} of earlier training" if "init_epoch" in ran else "the training of a file"
    after = f", after {earlier}" if ran.get("init") else ""
    is_best = Path(state["path"]).name == "best.pt"
    chosen = found.scores.get("chosen", BEST_ON_TEST) if is_best else "the last"
    card = {
        "name": name,
        "about": about,
        "model": found.name,
        "width": ran["model"]["settings"].get("width"),
        **({"stem_bits": bits} if (bits := ran["model"]["settings"].get("stem_bits")) else {}),
        "data": spec.name,
        "input": [spec.channels, spec.image_size, spec.image_size],
        "classes": list(spec.class_names),
        "recipe": recipe["name"].partition("/")[0],
        "epoch": f"{state['epoch']} of {recipe['epochs']}, {chosen}{after}",
        "seed": ran["seed"],
        "teacher": bool(ran["teacher"]),
        "validation_top1": rounded(found.scores.get("val_top1")),
        "chosen_on_test": "epoch" if chosen == BEST_ON_TEST else "",
        **rounded(scores),
        **told,
        "licence": licence or entry.licence,
        "size_bytes": report.size_bytes,
        "fp32_bytes": report.fp32_bytes,
        "sha256": hashlib.sha256(packed).hexdigest(),
        "latency_ms": rounded(latency),
        "latency_of": f"one image, one thread, {known['isa']}, {known['cpu']}",
        "latency_command": _bench(name),
        "commands": commands,
        "versions": machine.versions(),
        "recipe_settings": recipe,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.ftbnn", packed)
    write_atomically(folder / f"{name}.json", (dumps(card) + "\n").encode())
    return card | {"path": str(folder / f"{name}.ftbnn")}


def renew(name: str, data_dir: Path | None, folder: Path = FOLDER, *, licence: str = "") -> dict[str, Any]:
    """The card of a network of the zoo with what its file and its data tell today; what only the run knew is kept."""
    path, file = folder / f"{name}.json", folder / f"{name}.ftbnn"
    if not path.exists() or not file.exists():
        raise UserError(f"{folder} has no network {name!r} whose card could be renewed")
    card: dict[str, Any] = json.loads(path.read_text())
    channels, image_size, _ = card["input"]
    entry = SOURCES[card["data"]]
    source = load(card["data"], data_dir, image_size=image_size if entry.image_size is None else None)
    settings = {"width": card["width"], "classes": len(card["classes"]), "in_channels": channels}
    with skeleton():
        network = build(card["model"], stem=stem_for(image_size), stem_bits=card.get("stem_bits"), **settings)
    scores = evaluate_file(file, source, None)
    if abs(scores["test_top1"] - card["packed_top1"]) > SAME:
        found, said = scores["test_top1"], card["packed_top1"]
        raise UserError(f"{name} has {found:.2f} % on these data, not the {said:.2f} % of its card: are they others?")
    card = {key: value for key, value in card.items() if key != "val_images"}  # what older cards called test images
    card |= {
        "validation_top1": card.get("validation_top1"),
        "chosen_on_test": card.get("chosen_on_test", "epoch" if BEST_ON_TEST in card["epoch"] else ""),
        "test_images": scores["test_images"],
        **_told_by(file, network, source, scores),
        "licence": licence or card.get("licence") or entry.licence,
        "latency_command": _bench(name),
    }
    write_atomically(path, (dumps(card) + "\n").encode())
    return card | {"path": str(file)}


def _told_by(file: Path, network: nn.Module, source: Source, scores: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a file costs an image, by the paper's counting, and which classes it tells apart worst."""
    spec = source.spec
    assert spec is not None
    cost = count(network, (spec.channels, spec.image_size, spec.image_size))
    scores = scores or evaluate_file(file, source, None)
    costs = {"flops": cost.flops, "bops": cost.bops, "budget": cost.budget}
    return rounded(costs | {"worst_classes": scores["worst_classes"]})  # type: ignore[no-any-return]


def _bench(name: str) -> str:
    return f"ftbnn bench net zoo:{name} --threads 1"


def _latency_ms(file: Path) -> float:
    model = load_file(file, threads=1)
    image = np.zeros((1, *model.input_shape), np.float32)
    return 1e3 * min(min(turn(lambda: model(image))) for _ in range(TURNS))
