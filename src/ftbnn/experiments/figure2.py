"""Figure 2: four toy networks on MNIST: accuracy, what binarization changes per layer, and the feature space."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ftbnn.data import ArraySplit, Source
from ftbnn.data.transforms import normalise
from ftbnn.drawing import canvas
from ftbnn.errors import UserError
from ftbnn.experiments.claims import Claim, judge, spread, values
from ftbnn.experiments.discrepancy import READINGS, discrepancy
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.models import ToyNet
from ftbnn.text import counted
from ftbnn.training.run import load_run

TITLE = "Figure 2: four toy networks"
ABOUT = (
    "A real stem, two basic blocks and a classifier, trained without augmentation. The paper finds that binary "
    "convolutions beat real ones when nothing else is non-linear, that PReLU and ReLU add to that although the "
    "discrepancy between binary and real convolutions grows, and that ReLU separates the classes best. Its numbers "
    "stand in a picture that its source does not hold, so ours stand alone. The discrepancy is the mean of |binary "
    "convolution - convolution of the unbinarized input with the proxy weights|, in three readings: of the outputs as "
    "they are, as the caption says; in standard deviations of the binary output's channel, which is what BatchNorm "
    "divides out; and of the features, after BatchNorm's whole scale. Separation is the scatter between the "
    "classes over the scatter within them, in the features before the classifier; the pictures are t-SNE maps of "
    "these features."
)
LABELS = {"toy-linear": "Linear", "toy-binary": "Binary", "toy-prelu": "PReLU", "toy-relu": "ReLU"}
APART = "measured.discrepancy"
CLAIMS = (
    Claim("Binary beats Linear", "toy-binary", "toy-linear", None),
    Claim("PReLU beats Binary", "toy-prelu", "toy-binary", None),
    Claim("ReLU beats Binary", "toy-relu", "toy-binary", None),
    *(
        Claim(f"{label}'s discrepancy ({reading}) is above Binary's", toy, "toy-binary", None, f"{APART}.{reading}")
        for reading in READINGS
        for toy, label in (("toy-prelu", "PReLU"), ("toy-relu", "ReLU"))
    ),
    Claim("ReLU separates the classes better than Binary", "toy-relu", "toy-binary", None, "measured.separation"),
    Claim("ReLU separates the classes better than PReLU", "toy-relu", "toy-prelu", None, "measured.separation"),
)
PLACE = "section 1, figure 2"
MEASURED_IMAGES = 2000  # the first of the test split
DRAWN_IMAGES = 1000
DRAWN_SEED = 0


def jobs(request: Request) -> list[Job]:
    settings = {"augment": "none"}
    return [
        Job(model, model, seed, request.width, settings=settings)
        for seed in range(request.seeds)
        for model in reversed(LABELS)
    ]


def measure(run: Path, source: Source) -> dict[str, Any]:
    """Discrepancy, separation and, for one seed, a map of the features; over the first images of the test split."""
    network = load_run(run / "last.pt").network
    assert isinstance(network, ToyNet)
    if not isinstance(source.test, ArraySplit) or source.spec is None:
        raise UserError("figure2 takes data sets that lie in memory: mnist, fashion-mnist, digits, cifar10")
    images = normalise(source.test.images[:MEASURED_IMAGES], source.spec.mean, source.spec.std)
    labels = source.test.labels[: len(images)]
    apart = discrepancy(network, images)
    with torch.no_grad():
        features = network.features(images)
    measured: dict[str, Any] = {
        "discrepancy": {reading: fmean(layers.values()) for reading, layers in apart.items()},
        "discrepancy_per_layer": apart,
        "separation": separation(features, labels),
    }
    if run.name.endswith(f"seed{DRAWN_SEED}"):
        places = _map(features[:DRAWN_IMAGES])
        measured["map"] = [[round(float(x), 2), round(float(y), 2)] for x, y in places]
        measured["map_labels"] = "".join(chr(97 + int(label)) for label in labels[:DRAWN_IMAGES])
    return measured


def separation(features: Tensor, labels: Tensor) -> float:
    """Mean squared distance of class means from the mean, over that of images from their class mean (per image)."""
    own = torch.empty_like(features)
    for label in set(labels.tolist()):
        own[labels == label] = features[labels == label].mean(0)
    between = (own - features.mean(0)).square().sum()
    within = (features - own).square().sum()
    return float(between / within)


def _map(features: Tensor) -> Any:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(features) - 1) / 3)
    return TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(features.numpy())


def show(request: Request, records: Sequence[Record]) -> Findings:
    columns = (
        Column("model", "network"),
        Column("top1", f"top-1 ({request.data})", ".2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("least", "least", ".2f"),
        Column("greatest", "greatest", ".2f"),
        Column("separation", "separation", ".3f"),
        Column("seeds", "seeds"),
    )
    rows = []
    for variant, label in LABELS.items():
        done = [record for record in records if record["variant"] == variant and not record["divergence"]]
        top1, apart = values(done, variant), values(done, variant, "measured.separation")
        row: dict[str, Any] = {"model": label, "spread": spread(top1), "seeds": len(top1)}
        if top1:
            row |= {"top1": fmean(top1), "least": min(top1), "greatest": max(top1), "separation": fmean(apart)}
        rows.append(row)
    _draw(request, records)
    caption = f"Four networks of {request.width} channels on {request.data}, {counted(request.epochs, 'epoch')}"
    picture = Picture("figure2.png", "Features before the classifier, colour is the class; accuracy over all seeds")
    tables = [Table("toys", caption, columns, rows), _discrepancies(records), judge(CLAIMS, records, PLACE)]
    return Findings(tables, [picture])


def _discrepancies(records: Sequence[Record]) -> Table:
    """Each network's discrepancy per reading and layer, the mean over its seeds."""
    finished = [record for record in records if "measured" in record]
    measured = {
        variant: [one["measured"]["discrepancy_per_layer"] for one in finished if one["variant"] == variant]
        for variant in LABELS
    }
    kinds = [
        (reading, layer)
        for first in [one[0] for one in measured.values() if one][:1]
        for reading, layers in first.items()
        for layer in layers
    ]
    columns = [Column("model", "network")]
    columns += [Column(f"{r}.{layer}", f"{r}, {layer.removesuffix('.conv')}", ".3g") for r, layer in kinds]
    rows = [
        {"model": LABELS[variant]} | {f"{r}.{layer}": fmean(one[r][layer] for one in done) for r, layer in kinds}
        for variant, done in measured.items()
        if done
    ]
    caption = "Binary against real convolutions, mean |difference|: of outputs, in their deviations, of features"
    return Table("discrepancy", caption, columns, rows)


def _draw(request: Request, records: Sequence[Record]) -> None:
    with canvas(request.out / "figure2.png", rows=2, columns=2, size=(6.4, 6.8)) as axes:
        for axis, (variant, label) in zip(axes.flat, LABELS.items(), strict=True):
            axis.set(xticks=[], yticks=[], title=label)
            measured = [r["measured"] for r in records if r["variant"] == variant and not r["divergence"]]
            mapped = next((one for one in measured if "map" in one), None)
            if mapped is None:
                continue
            places = np.asarray(mapped["map"])
            colors = [ord(letter) - 97 for letter in mapped["map_labels"]]
            axis.scatter(places[:, 0], places[:, 1], c=colors, cmap="tab10", s=4, linewidths=0)
            top1 = values(records, variant)
            around = f" ± {spread(top1):.2f}" if len(top1) > 1 else ""
            numbers = f"discrepancy {mapped['discrepancy']['outputs']:.1f}, separation {mapped['separation']:.2f}"
            axis.set_title(f"{label}: {fmean(top1):.2f}{around} %\n{numbers}", fontsize="medium")
