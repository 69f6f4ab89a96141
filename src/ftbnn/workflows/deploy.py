"""From a run or a network to a file, and how good it is: training, packing and runtime put together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from ftbnn.data import SOURCES, Source, Spec, source_of
from ftbnn.data import load as load_data
from ftbnn.data.batches import Batches
from ftbnn.data.own import LoaderBatches
from ftbnn.data.transforms import normalise
from ftbnn.errors import UserError, unknown, wrong_kind
from ftbnn.exchange.qonnx_export import QonnxReport, export_qonnx
from ftbnn.files import write_atomically
from ftbnn.nn import Backend, use_backend
from ftbnn.runtime import Model
from ftbnn.runtime import load as load_file
from ftbnn.tracing import evaluating
from ftbnn.training.packed import Exported, write_file
from ftbnn.training.run import Run, RunDir, load_run, load_state, run_of
from ftbnn.training.scores import evaluate as score
from ftbnn.workflows.confusion import worst_classes
from ftbnn.zoo import card, name_in, packed_file

BATCH = 256
FORMATS = ("ftbnn", "onnx")


def export(
    what: nn.Module | Run | str | Path,
    path: str | Path,
    *,
    spec: Spec | None = None,
    image_size: tuple[int, int, int] | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    class_names: Sequence[str] | None = None,
    resize: int | None = None,
    name: str = "",
    format: str | None = None,
) -> Exported:
    """Writes a run (its best epoch), a checkpoint or a network as a file, once the file has given the same answers.

    How photos are prepared comes from the run. Of a network that is no run's it must be said: a `spec`, as data sets
    have it, or `image_size` (channels, height, width) with `mean` and `std` of images on the scale 0 to 1; `resize` is
    a photo's shorter side before its centre is cut out. `format` is `ftbnn` or `onnx`, by default as the path ends.
    """
    path = Path(path)
    format = _format(path, format)
    said = _Said(image_size, mean, std, class_names, resize)
    if isinstance(what, nn.Module):
        known = said.spec(spec, "a file must know its images: give the run, the spec of your data set")
        return write_file(what, path, name or type(what).__name__, known, format)
    if isinstance(what, str | Path):
        if (file := packed_file(what)) is not None and file.exists():
            raise UserError(
                f"{what} is packed already: load and evaluate take it, export_c writes it as C; {format} is written "
                "of a run or a network"
            )
        if (run := _made_in_python(what, "export", "FILE, image_size=..., mean=..., std=...")) is not None:
            if spec is not None or not said.nothing:
                raise UserError(f"the file in {run.path} is made: for another one, export load_run({what!s}, network)")
            return _copy(run, path, format)
        what = load_run(what)
    if not isinstance(what, Run):
        raise wrong_kind("what is exported is a run, a checkpoint or a network", what)
    known = said.spec(spec or what.spec, f"{what.name} was trained on data of your own: give their spec")
    return write_file(what.network, path, name or what.name, known, format)


def export_as_qonnx(what: nn.Module | Run | str | Path, path: str | Path, **images: Any) -> QonnxReport:
    """Writes the same as QONNX, once its nodes have given the engine's answers."""
    with packed(what, **images) as file:
        return export_qonnx(file, path)


@contextmanager
def packed(what: nn.Module | Run | str | Path, **images: Any) -> Iterator[Path]:
    """The .ftbnn file that is meant, or one that `export` writes for as long as it is needed."""
    if isinstance(what, str | Path) and (given := packed_file(what)) is not None:
        yield given
        return
    if not isinstance(what, str | Path | Run | nn.Module):
        raise wrong_kind("what is converted is a .ftbnn file, a run, a checkpoint or a network", what)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "network.ftbnn"
        export(what, file, **images)
        yield file


def _format(path: Path, said: str | None) -> str:
    """What is said, or what the path's ending says; not one under the other's name."""
    ending = path.suffix[1:] if path.suffix[1:] in FORMATS else None
    chosen = said or ending or FORMATS[0]
    if chosen not in FORMATS:
        raise unknown("format", chosen, FORMATS, hint="C is written by export_c")
    if ending not in (None, chosen):
        raise UserError(f"{path} would hold {chosen}; call it .{chosen}, or give the format {ending}")
    return chosen


@dataclass(frozen=True)
class _Said:
    """What a user says of images; nothing is guessed."""

    image_size: tuple[int, int, int] | None
    mean: float | Sequence[float] | None
    std: float | Sequence[float] | None
    class_names: Sequence[str] | None
    resize: int | None

    @property
    def nothing(self) -> bool:
        return all(value is None for value in vars(self).values())

    def spec(self, known: Spec | None, lacking: str) -> Spec:
        """What is known, with what is said in its place."""
        size = self.image_size
        if size is not None and (np.shape(size) != (3,) or not all(isinstance(n, Integral) and n > 0 for n in size)):
            raise UserError(f"image_size is (channels, height, width), as (3, 224, 224), not {size}")
        if isinstance(self.class_names, str) or not (self.class_names is None or np.iterable(self.class_names)):
            raise UserError(f"class_names are a list of texts, one for each output, not {self.class_names!r}")
        if known is None:
            if self.image_size is None or self.mean is None or self.std is None:
                raise UserError(
                    f"{lacking}, or image_size=(channels, height, width) with mean and std of images on the scale 0 to "
                    "1 (0 and 1 if they enter as x / 255)"
                )
            known = Spec("", 0, *self.image_size[:2], (), (), ())
        channels, height, width = self.image_size or (known.channels, known.image_size, known.image_size)
        if height != width:
            raise UserError(f"images must be square here, not {height} x {width}; ftbnn.packing.pack takes others")
        names = known.class_names if self.class_names is None else tuple(self.class_names)
        return replace(
            known,
            channels=channels,
            image_size=height,
            mean=_numbers(self.mean, known.mean, channels),
            std=_numbers(self.std, known.std, channels),
            class_names=names,
            classes=len(names),
            resize=self.resize or (known.resize if height == known.image_size else 0),
        )


def _numbers(said: float | Sequence[float] | None, known: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """One for each channel: what is said, or known."""
    if said is None:
        return known
    try:
        numbers = np.asarray(said, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"mean and std are a number, or one for each channel, not {said!r}") from None
    return (float(numbers),) * channels if numbers.ndim == 0 else tuple(numbers.ravel().tolist())


def _made_in_python(path: str | Path, verb: str, more: str) -> RunDir | None:
    """The run of a network that only Python can build, whose file is in it; None of any other. `verb` with `more` is
    what does the same there without the file."""
    run = RunDir(Path(path)).last_step
    if not run.path.is_dir() or (about := run.read_json("run.json"))["model"]["name"]:
        return None
    made = about.get("export", {})
    if not run.file.exists() or made.get("epoch") != load_state(run.path)["epoch"]:
        why = made.get("error", "the run has not come to its end")
        raise UserError(
            f"the network of {path} was made in Python, and the run has no file of it ({why}): in Python, "
            f"ftbnn.{verb}(ftbnn.load_run({str(path)!r}, network), {more})"
        )
    return run


def _copy(run: RunDir, path: Path, format: str) -> Exported:
    """The file that a network made in Python has left in its run: nothing of the run could build it again."""
    if format != "ftbnn":
        raise UserError(
            f"the network of {run.path} was made in Python, and {format} is written of a network that is there: in "
            f"Python, ftbnn.export(ftbnn.load_run({str(run.path)!r}, network), {str(path)!r}, format={format!r})"
        )
    write_atomically(path, run.file.read_bytes())
    about = run.read_json("run.json")["export"]
    return Exported(**{key: value for key, value in about.items() if key != "epoch"} | {"path": str(path)})


def scoring_backend(run: Run) -> Backend:
    """The backend that gives the same floats as at the end of the run's epochs."""
    return "native" if run.recipe.backend.startswith("native") else "torch"


def evaluate(
    what: nn.Module | Run | Model | str | Path,
    data: Any = None,
    *,
    data_dir: str | Path | None = None,
    workers: int = 0,
) -> dict[str, Any]:
    """Accuracy on the test split of `data` (a run's own by default): of a network, a run, a checkpoint, a .ftbnn file,
    `zoo:NAME` or a loaded model.

    `data` is as `fit` takes it; a single data set of your own is the test split. Keys are test_top1, test_top5,
    test_images, corrupt, of a file worst_classes, and of all else test_loss.
    """
    if isinstance(what, Model):
        return evaluate_model(what, _source(data, data_dir, what.input_shape[1]), workers=workers)
    if isinstance(what, nn.Module):
        return _score(what, _source(data, data_dir), workers)
    if isinstance(what, Run):
        return _evaluate_run(what, data, data_dir, workers)
    if not isinstance(what, str | Path):
        raise wrong_kind("what is evaluated is a network, a run, a checkpoint, a .ftbnn file or a loaded model", what)
    if (file := packed_file(what)) is not None:
        name = name_in(what)
        data = card(name)["data"] if data is None and name is not None else data
        return evaluate_file(file, data, data_dir, workers=workers)
    if (run := _made_in_python(what, "evaluate", "data")) is not None:
        known = load_state(run.path)["spec"]["name"]  # it has a file, so it has a spec
        return evaluate_file(run.file, _trained_on(what, known) if data is None else data, data_dir, workers=workers)
    return _evaluate_run(load_run(what), data, data_dir, workers)


def _trained_on(path: str | Path, name: str) -> str:
    """The name of a run's data, if anybody else can load them."""
    if name not in SOURCES:
        raise UserError(f"{path} was trained on data of your own{f', {name}' * bool(name)}: say on which now (data)")
    return name


def _source(data: Any, data_dir: str | Path | None, image_size: int | None = None) -> Source:
    if data is None:
        raise UserError("a network does not say what it was trained on: say it (data)")
    if not isinstance(data, str):
        return source_of(data)
    has_any_size = data in SOURCES and SOURCES[data].image_size is None
    return load_data(data, data_dir, image_size=image_size if has_any_size else None)


def _test_batches(source: Source, workers: int = 0, *, raw: bool = False) -> Batches | LoaderBatches:
    """Of the test split; a single data set of one's own is one."""
    split: Any = source.train if source.test is None else source.test
    if isinstance(split, DataLoader):
        return LoaderBatches(split)
    return Batches(split, source.spec, batch_size=BATCH, shuffle=False, workers=workers, raw=raw)


def _score(network: nn.Module, source: Source, workers: int) -> dict[str, Any]:
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    with evaluating(network):
        scores = score(network, _test_batches(source, workers), device=device)
    return {"data": source.name, **scores}


def _evaluate_run(run: Run, data: Any, data_dir: str | Path | None, workers: int) -> dict[str, Any]:
    spec = run.spec
    name = data if data is not None else _trained_on(run.state["path"], "" if spec is None else spec.name)
    source = _source(name, data_dir, None if spec is None else spec.image_size)
    if spec is not None and source.spec is not None:
        _check_size(run.state["path"], (spec.channels, spec.image_size, spec.image_size), source.spec)
        for what in ("classes", "class_names"):
            then, now = getattr(spec, what), getattr(source.spec, what)
            if then != now:
                raise UserError(f"{run.state['path']} was trained on {what} {then}; {source.name} has {now}")
        # What the network learnt with: another data set of the same classes is normalised as the training data was.
        source = replace(source, spec=replace(source.spec, mean=spec.mean, std=spec.std))
    with use_backend(scoring_backend(run)):
        scores = _score(run.network, source, workers)
    return {"checkpoint": run.state["path"], "epoch": run.state["epoch"], **scores}


def evaluate_file(path: Path, data: Any, data_dir: str | Path | None, *, workers: int = 0) -> dict[str, Any]:
    """Accuracy of a .ftbnn file on the test split of a data set."""
    if data is None:
        raise UserError("a .ftbnn file does not say what it was trained on: say it (data)")
    model = load_file(path)
    source = _source(data, data_dir, model.input_shape[1])
    return {"checkpoint": str(path)} | evaluate_model(model, source, workers=workers)


def evaluate_model(model: Model, source: Source, *, workers: int = 0) -> dict[str, Any]:
    """The same of a loaded model: images of a named data set as 8 bits, as `predict` gives them; a user's own as the
    floats they are."""
    if source.spec is not None:
        _check_fits(model, source.spec)
    top1 = top5 = count = 0
    confusion = np.zeros((0, 0), np.int64)
    corrupt: list[str] = []
    for batch in _test_batches(source, workers, raw=True).epoch(0):
        corrupt += batch.corrupt
        if not len(batch):
            continue
        scores, labels = model(_pixels(batch.images)), batch.labels.numpy()
        answers = np.argsort(-scores, axis=1, kind="stable")[:, : min(5, scores.shape[1])]
        if not confusion.size:
            confusion = np.zeros((scores.shape[1],) * 2, np.int64)
        np.add.at(confusion, (labels, answers[:, 0]), 1)
        ranked = answers == labels[:, None]
        top1, top5, count = top1 + ranked[:, 0].sum(), top5 + ranked.any(axis=1).sum(), count + len(labels)
    if not count:
        raise UserError("the test split has no image that can be read")
    shares = {"test_top1": 100 * float(top1) / count, "test_top5": 100 * float(top5) / count}
    worst = worst_classes(confusion, model.class_names)
    return {"data": source.name, **shares, "test_images": count, "worst_classes": worst, "corrupt": corrupt}


def _check_size(what: str, takes: tuple[int, int, int], spec: Spec) -> None:
    theirs = (spec.channels, spec.image_size, spec.image_size)
    if theirs != takes:
        wanted, has = ("x".join(map(str, shape)) for shape in (takes, theirs))
        raise UserError(f"{what} takes {wanted} images; {spec.name} has {has}")


def _check_fits(model: Model, spec: Spec) -> None:
    _check_size("the file", model.input_shape, spec)
    if model.class_names and list(spec.class_names) != model.class_names[: len(spec.class_names)]:
        known, other = (", ".join(names[:3]) for names in (model.class_names, list(spec.class_names)))
        raise UserError(f"the file tells other classes apart ({known}, ...) than {spec.name} has ({other}, ...)")


def _pixels(images: torch.Tensor) -> Any:
    """8-bit (N, C, H, W) as the engine takes them; floats as they are."""
    return np.ascontiguousarray((images.permute(0, 2, 3, 1) if images.dtype == torch.uint8 else images).numpy())


def last_checkpoint(run: Path) -> Path:
    """The checkpoint after the last epoch of a run (of its last step, if it has several)."""
    return RunDir(run).last_step.last


def compare_file(checkpoint: Path, file: Path, source: Source) -> dict[str, Any]:
    """Accuracy of a checkpoint and of its file, and how often their answers agree, over the test split (in %)."""
    run, model, spec = load_run(checkpoint), load_file(file), source.spec
    assert spec is not None
    hits = packed_hits = same = count = 0
    for batch in _test_batches(source, raw=True).epoch(0):
        if not len(batch):
            continue
        images = normalise(batch.images, spec.mean, spec.std)
        with torch.no_grad(), use_backend(scoring_backend(run)):
            answers = run.network(images).argmax(1).numpy()
        packed, labels = model(_pixels(batch.images)).argmax(1), batch.labels.numpy()
        hits, packed_hits = hits + (answers == labels).sum(), packed_hits + (packed == labels).sum()
        same, count = same + (answers == packed).sum(), count + len(labels)
    shares = {"checkpoint_top1": hits, "packed_top1": packed_hits, "agreement": same}
    return {key: 100 * float(value) / count for key, value in shares.items()} | {"test_images": count}


def default_name(checkpoint: Path, format: str) -> Path:
    """What a run's file is called where nobody says."""
    return Path(f"{run_of(checkpoint.resolve()).name or 'model'}.{format}")
