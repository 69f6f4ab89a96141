"""From a run to a file, and a file's accuracy: training, export and runtime put together."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ftbnn.data import Source
from ftbnn.data import load as load_data
from ftbnn.data.batches import Batches
from ftbnn.data.imagefolder import SIZE, TEST_SIDE
from ftbnn.errors import UserError
from ftbnn.export import export, export_onnx
from ftbnn.runtime import load as load_file
from ftbnn.training.named import load_for_scores
from ftbnn.training.run import RunDir, load_network

SAMPLES = 64


def export_run(path: Path, out: Path, *, onnx: bool = False) -> dict[str, Any]:
    """Exports a run's best epoch or a checkpoint, runs the file natively and compares it on made images."""
    network, state = load_network(path)
    spec = state["spec"]
    if spec is None:
        raise UserError(
            f"{path} was trained on data of your own: call ftbnn.export.export(module, example_input, path)"
        )
    side = spec["image_size"]
    samples = torch.randn(SAMPLES, spec["channels"], side, side, generator=torch.Generator().manual_seed(0))
    if onnx:
        made = export_onnx(network, samples[:2], out)
        fp32 = sum(4 * t.numel() for t in network.state_dict().values() if t.is_floating_point())
        return {
            "path": str(out),
            "size_bytes": made.size_bytes,
            "fp32_bytes": fp32,
            "median_error": made.relative_error,
        }
    report = export(
        network,
        samples[:2],
        out,
        samples=samples,
        name=state["model_spec"]["name"],
        mean=spec["mean"],
        std=spec["std"],
        class_names=spec["class_names"],
        resize=round(side * TEST_SIDE / SIZE) if spec["augment"] == "imagenet" else side,
    )
    return {
        "path": str(out),
        "size_bytes": report.size_bytes,
        "fp32_bytes": report.fp32_bytes,
        "operators": report.operators,
        "samples": report.agreement.images,
        "top1_agreement": report.agreement.top1,
        "median_error": report.agreement.median_error,
    }


def last_checkpoint(run: Path) -> Path:
    """The checkpoint after the last epoch of a run (of its last step, if it has several)."""
    return RunDir(run).last_step.last


def compare_file(checkpoint: Path, file: Path, source: Source) -> dict[str, Any]:
    """Accuracy of a checkpoint and of its file, and how often their answers agree, over the test split (in %)."""
    network, _ = load_for_scores(checkpoint)
    model = load_file(file)
    hits = packed_hits = same = count = 0
    for batch in Batches(source.val, source.spec, batch_size=256, shuffle=False).epoch(0):
        if not len(batch):
            continue
        with torch.no_grad():
            answers = network(batch.images).argmax(1).numpy()
        packed, labels = model(batch.images.numpy()).argmax(1), batch.labels.numpy()
        hits, packed_hits = hits + (answers == labels).sum(), packed_hits + (packed == labels).sum()
        same, count = same + (answers == packed).sum(), count + len(labels)
    shares = {"checkpoint_top1": hits, "packed_top1": packed_hits, "agreement": same}
    return {key: 100 * float(value) / count for key, value in shares.items()} | {"val_images": count}


def evaluate_file(path: Path, data: str, data_dir: Path | None, *, workers: int = 0) -> dict[str, Any]:
    """Accuracy of a .ftbnn file on the test split of a data set."""
    model = load_file(path)
    channels, height, width = model.input_shape
    source = load_data(data, data_dir, image_size=height if data in ("imagefolder", "synthetic") else None)
    spec = source.spec
    if (spec.channels, spec.image_size, spec.image_size) != (channels, height, width):
        theirs = f"{spec.channels}x{spec.image_size}x{spec.image_size}"
        raise UserError(f"{path} takes {channels}x{height}x{width} images; {data} has {theirs}")
    if model.class_names and list(spec.class_names) != model.class_names:
        known, other = (", ".join(names[:3]) for names in (model.class_names, list(spec.class_names)))
        raise UserError(f"{path} tells other classes apart ({known}, ...) than {data} has ({other}, ...)")
    spec = replace(spec, mean=tuple(model.mean), std=tuple(model.std))  # as the engine does it to a photo
    top1 = top5 = count = 0
    corrupt: list[str] = []
    for batch in Batches(source.val, spec, batch_size=64, shuffle=False, workers=workers).epoch(0):
        corrupt += batch.corrupt
        if not len(batch):
            continue
        scores, labels = model(batch.images.numpy()), batch.labels.numpy()
        ranked = np.argsort(-scores, axis=1, kind="stable")[:, : min(5, scores.shape[1])] == labels[:, None]
        top1, top5, count = top1 + ranked[:, 0].sum(), top5 + ranked.any(axis=1).sum(), count + len(labels)
    if not count:
        raise UserError("the test split has no image that can be read")
    facts = {"checkpoint": str(path), "data": data, "val_images": count, "val_corrupt": corrupt}
    return facts | {"val_top1": 100 * float(top1) / count, "val_top5": 100 * float(top5) / count}
