"""From a run or a network to a file, and how good it is: training, packing and runtime put together."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ftbnn.data import Source, Spec, source_of
from ftbnn.data import load as load_data
from ftbnn.data.batches import Batches
from ftbnn.errors import UserError
from ftbnn.nn import use_backend
from ftbnn.runtime import Model
from ftbnn.runtime import load as load_file
from ftbnn.training.packed import Exported, write_file
from ftbnn.training.run import Run, RunDir, load_run, load_state, run_of
from ftbnn.training.scores import evaluate as score
from ftbnn.zoo import card, name_in, resolve

BATCH = 256


def export(
    what: nn.Module | Run | str | Path,
    path: str | Path,
    *,
    spec: Spec | None = None,
    image_size: int | tuple[int, int, int] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    class_names: Sequence[str] = (),
    name: str = "",
    format: str = "ftbnn",
) -> Exported:
    """Writes a run (its best epoch), a checkpoint or a network as a file, once the file has given the same answers.

    How photos are prepared comes from the run. Of a network that is no run's it must be said: a `spec`, as data sets
    have it, or `image_size` (channels, height, width) with `mean` and `std` of images on the scale 0 to 1.
    """
    path = Path(path)
    if isinstance(what, nn.Module):
        return write_file(
            what, path, name or type(what).__name__, spec or _said(image_size, mean, std, class_names), format
        )
    if isinstance(what, str | Path):
        if _is_made_in_python(what):
            return _copy(RunDir(Path(what)), path, format)
        what = load_run(what)
    spec = spec or what.spec
    if spec is None:
        if mean is None or std is None or image_size is None:
            raise UserError(
                f"{what.name} was trained on data of your own: say how images are prepared, with image_size, mean and std"
            )
        spec = _said(image_size, mean, std, class_names)
    return write_file(what.network, path, name or what.name, spec, format)


def _said(
    image_size: int | tuple[int, int, int] | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
    class_names: Sequence[str],
) -> Spec:
    """What a user says of images; nothing is guessed."""
    if image_size is None or mean is None or std is None:
        raise UserError(
            "a file must know its images: give the run, a spec (that of your data set), or image_size=(channels, height, "
            "width) with mean and std of images on the scale 0 to 1 (0 and 1 if they enter as x / 255)"
        )
    channels, height, width = (len(mean), image_size, image_size) if isinstance(image_size, int) else image_size
    if height != width:
        raise UserError(f"images must be square, not {height} x {width}")
    return Spec("", len(class_names), channels, height, tuple(mean), tuple(std), tuple(class_names))


def _is_made_in_python(path: str | Path) -> bool:
    """Whether this is the run of a network that only Python can build; then its file is in the run."""
    run = RunDir(Path(path))
    if not run.path.is_dir() or run.steps or run.read_json("run.json")["model"]["name"]:
        return False
    if not run.file.exists():
        why = run.read_json("run.json").get("export", {}).get("error", "it has not come to its end")
        raise UserError(f"the network of {path} was made in Python, and the run has no file of it: {why}")
    return True


def _copy(run: RunDir, path: Path, format: str) -> Exported:
    """A network made in Python left its file in the run: nothing of the run could build it again."""
    if format != "ftbnn":
        raise UserError(f"the network of {run.path} was made in Python: only from there can it be written as {format}")
    shutil.copyfile(run.file, path)
    about = run.read_json("run.json")["export"]
    return Exported(**(about | {"path": str(path)}))


def scoring_backend(run: Run) -> str:
    """The backend that gives the same floats as at the end of the run's epochs."""
    return "native" if run.recipe.backend.startswith("native") else "torch"


def evaluate(
    what: nn.Module | Run | Model | str | Path,
    data: Any = None,
    *,
    data_dir: str | Path | None = None,
    workers: int = 0,
    spec: Spec | None = None,
) -> dict[str, Any]:
    """Loss and accuracy on the test split of `data` (a run's own by default): of a network, a run, a checkpoint, a
    .ftbnn file, `zoo:NAME` or a loaded model. Keys are test_loss, test_top1, test_top5, test_images, corrupt."""
    if isinstance(what, str | Path):
        file = resolve(what)
        if file.suffix == ".ftbnn":
            name = name_in(what)
            return evaluate_file(file, data or (card(name)["data"] if name else None), data_dir, workers=workers)
        if _is_made_in_python(file):
            state = load_state(file)
            if data is None and state["spec"] is None:
                raise UserError(f"{what} was trained on data of your own: say on which to evaluate")
            return evaluate_file(RunDir(file).file, data or state["spec"]["name"], data_dir, workers=workers)
        what = load_run(what)
    if isinstance(what, Model):
        return evaluate_model(what, _source(data, data_dir, what.input_shape[1]), workers=workers)
    if isinstance(what, nn.Module):
        source = _source(data, data_dir, None)
        if spec is not None:
            source = replace(source, spec=spec)
        return _score(what, source, workers)
    return _evaluate_run(what, data, data_dir, workers)


def _source(data: Any, data_dir: str | Path | None, image_size: int | None) -> Source:
    if data is None:
        raise UserError("say on which data to evaluate")
    if isinstance(data, str):
        sized = image_size if data in ("imagefolder", "synthetic") else None
        return load_data(data, data_dir, image_size=sized)
    return source_of(data)


def _score(network: nn.Module, source: Source, workers: int) -> dict[str, Any]:
    test = source.train if source.test is None else source.test
    batches = Batches(test, source.spec, batch_size=BATCH, shuffle=False, workers=workers)
    training = network.training
    scores = score(network, batches, device=torch.device("cpu"))
    network.train(training)
    return {"data": source.name, **scores}


def _evaluate_run(run: Run, data: Any, data_dir: str | Path | None, workers: int) -> dict[str, Any]:
    spec = run.spec
    if data is None and spec is None:
        raise UserError(f"{run.name} was trained on data of your own: say on which to evaluate")
    name = data if data is not None else spec.name  # type: ignore[union-attr]
    size = spec.image_size if spec is not None and name == spec.name else None
    source = _source(name, data_dir, size)
    if spec is not None and source.spec is not None:
        for what in ("channels", "classes", "class_names"):
            then, now = getattr(spec, what), getattr(source.spec, what)
            if then != now:
                raise UserError(f"{run.state['path']} was trained on {what} {then}; {source.name} has {now}")
        # What the network learnt with: another data set of the same classes is normalised as the training data was.
        source = replace(source, spec=replace(source.spec, mean=spec.mean, std=spec.std))
    with use_backend(scoring_backend(run)):  # type: ignore[arg-type]
        scores = _score(run.network, source, workers)
    return {"checkpoint": run.state["path"], "epoch": run.state["epoch"], **scores}


def evaluate_file(path: Path, data: Any, data_dir: str | Path | None, *, workers: int = 0) -> dict[str, Any]:
    """Accuracy of a .ftbnn file on the test split of a data set, its images as 8 bits, as `predict` gives them."""
    if data is None:
        raise UserError("a .ftbnn file does not say what it was trained on: say on which data to evaluate")
    model = load_file(path)
    source = _source(data, data_dir, model.input_shape[1])
    return {"checkpoint": str(path)} | evaluate_model(model, source, workers=workers)


def evaluate_model(model: Model, source: Source, *, workers: int = 0) -> dict[str, Any]:
    """The same of a loaded model."""
    spec, channels, (height, width) = source.spec, model.input_shape[0], model.input_shape[1:]
    if spec is None:
        raise UserError("a file is evaluated on 8-bit images: on a data set by name")
    if (spec.channels, spec.image_size, spec.image_size) != (channels, height, width):
        theirs = f"{spec.channels}x{spec.image_size}x{spec.image_size}"
        raise UserError(f"the file takes {channels}x{height}x{width} images; {source.name} has {theirs}")
    if model.class_names and list(spec.class_names) != model.class_names[: len(spec.class_names)]:
        known, other = (", ".join(names[:3]) for names in (model.class_names, list(spec.class_names)))
        raise UserError(f"the file tells other classes apart ({known}, ...) than {source.name} has ({other}, ...)")
    top1 = top5 = count = 0
    corrupt: list[str] = []
    for batch in _test_batches(source, workers):
        corrupt += batch.corrupt
        if not len(batch):
            continue
        scores, labels = model(_pixels(batch.images)), batch.labels.numpy()
        ranked = np.argsort(-scores, axis=1, kind="stable")[:, : min(5, scores.shape[1])] == labels[:, None]
        top1, top5, count = top1 + ranked[:, 0].sum(), top5 + ranked.any(axis=1).sum(), count + len(labels)
    if not count:
        raise UserError("the test split has no image that can be read")
    shares = {"test_top1": 100 * float(top1) / count, "test_top5": 100 * float(top5) / count}
    return {"data": source.name, **shares, "test_images": count, "corrupt": corrupt}


def _test_batches(source: Source, workers: int = 0) -> Any:
    assert source.test is not None
    return Batches(source.test, source.spec, batch_size=BATCH, shuffle=False, workers=workers, raw=True).epoch(0)


def _pixels(images: torch.Tensor) -> Any:
    """8-bit (N, C, H, W) as the engine takes them."""
    return np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())


def last_checkpoint(run: Path) -> Path:
    """The checkpoint after the last epoch of a run (of its last step, if it has several)."""
    return RunDir(run).last_step.last


def compare_file(checkpoint: Path, file: Path, source: Source) -> dict[str, Any]:
    """Accuracy of a checkpoint and of its file, and how often their answers agree, over the test split (in %)."""
    from ftbnn.data.transforms import normalise

    run, model, spec = load_run(checkpoint), load_file(file), source.spec
    assert spec is not None
    hits = packed_hits = same = count = 0
    for batch in _test_batches(source):
        if not len(batch):
            continue
        images = normalise(batch.images, spec.mean, spec.std)
        with torch.no_grad(), use_backend(scoring_backend(run)):  # type: ignore[arg-type]
            answers = run.network(images).argmax(1).numpy()
        packed, labels = model(_pixels(batch.images)).argmax(1), batch.labels.numpy()
        hits, packed_hits = hits + (answers == labels).sum(), packed_hits + (packed == labels).sum()
        same, count = same + (answers == packed).sum(), count + len(labels)
    shares = {"checkpoint_top1": hits, "packed_top1": packed_hits, "agreement": same}
    return {key: 100 * float(value) / count for key, value in shares.items()} | {"test_images": count}


def default_name(checkpoint: Path, format: str) -> Path:
    """What a run's file is called where nobody says."""
    return Path(f"{run_of(checkpoint.resolve()).name or 'model'}.{format}")
