"""A trained network as a file: with what its spec says of the images, compared with the network before it is kept."""

import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ftbnn.data.source import Spec
from ftbnn.errors import UserError, first_line
from ftbnn.packing import export_onnx, pack
from ftbnn.packing.write import InputInfo
from ftbnn.tracing import evaluating
from ftbnn.training.run import RunDir, load_run, run_of

SAMPLES = 64


@dataclass(frozen=True)
class Exported:
    """What an export made, and how the file's answers compare with the network's."""

    path: str
    size_bytes: int
    fp32_bytes: int
    samples: int | None  # None: of ONNX only the median error is known, without ONNX Runtime not even that
    top1_agreement: float | None
    median_error: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def write_file(network: nn.Module, path: Path, name: str, spec: Spec, format: str = "ftbnn") -> Exported:
    """Writes `network` for images as `spec` has them, once its file has given the same answers on made images."""
    samples = torch.randn(
        SAMPLES, spec.channels, spec.image_size, spec.image_size, generator=torch.Generator().manual_seed(0)
    )
    try:
        with evaluating(network):
            found = network(samples[:1])
    except UserError:
        raise
    except Exception as error:  # whatever a user's forward may raise
        size = "x".join(map(str, samples.shape[1:]))
        raise UserError(
            f"the network does not run on images of {size}: {first_line(error)}; say the size that it takes"
        ) from error
    outputs = found[0].numel() if isinstance(found, torch.Tensor) else 0
    names = spec.class_names
    if names and outputs > len(names):  # outputs that no class of the data has are called by their numbers
        names = (*names, *(f"output {number}" for number in range(len(names), outputs)))
    if format == "onnx":
        info = InputInfo(name, spec.mean, spec.std, spec.resize, names)
        made = export_onnx(network, samples[:2], path, info=info)
        fp32 = sum(4 * t.numel() for t in network.state_dict().values() if t.is_floating_point())
        return Exported(str(path), made.size_bytes, fp32, None, None, made.relative_error)
    settings = {"name": name, "mean": spec.mean, "std": spec.std, "class_names": names, "resize": spec.resize}
    report = pack(network, samples[:2], path, samples=samples, **settings)  # type: ignore[arg-type]
    compared = report.agreement
    sizes = report.size_bytes, report.fp32_bytes
    return Exported(str(path), *sizes, compared.images, compared.top1, compared.median_error)


def leave_file(run: RunDir, network: nn.Module) -> str:
    """Leaves the file of a network that was made in Python in its run, which could not build it again; or the reason
    why there is none, which it gives back."""
    about = run.read_json("run.json")
    try:
        found = load_run(run.path, copy.deepcopy(network).cpu())
        if found.spec is None:
            raise UserError("how images of your own data are prepared is not known; train on a Source with a Spec")
        made = write_file(found.network, run.file, run_of(run.path).name, found.spec)
        about["export"] = made.to_json() | {"path": run.file.name, "epoch": found.state["epoch"]}
    except Exception as error:  # the training is done and saved, whatever a network does to whom traces it
        about["export"] = {"error": first_line(error)}
    run.write_json("run.json", about)
    return str(about["export"].get("error", ""))
