"""A run with either backend: what it records, and that an interruption leaves no trace."""

import json

import pytest
import torch

from ftbnn.errors import UserError
from ftbnn.machine import capabilities
from ftbnn.models import build
from ftbnn.training import Options, Recipe, fit
from ftbnn.training.checkpoint import load

torch.manual_seed(0)
ITEMS = [(torch.randn(1, 8, 8) + k % 2, k % 2) for k in range(40)]


class Breaks:
    """The items, and a power cut after so many of them."""

    def __init__(self, after):
        self.left = after

    def __len__(self):
        return len(ITEMS)

    def __getitem__(self, index):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return ITEMS[index]


def train(out, backend, *, after=10**6, **options):
    recipe = Recipe("r", epochs=2, batch_size=8, lr=1e-2, backend=backend)
    network = lambda: build("ftbnn18", width=4, classes=2, in_channels=1, stem="small")  # noqa: E731
    return fit(network, (Breaks(after), ITEMS[:8]), recipe, out, Options(save_every=1, quiet=True, **options))


needs_bytes = pytest.mark.skipif(not capabilities()["training"]["bytes"], reason="this CPU multiplies no bytes")


@pytest.mark.parametrize("backend", ["native", pytest.param("native8", marks=needs_bytes), "torch"])
def test_an_interrupted_run_ends_with_the_same_bytes(backend, tmp_path):
    train(tmp_path / "whole", backend)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", backend, after=60)
    train(tmp_path / "cut", "auto", resume=True)  # auto: whatever the run began with
    assert json.loads((tmp_path / "cut" / "recipe.json").read_text())["backend"] == backend
    about = json.loads((tmp_path / "cut" / "run.json").read_text())
    assert about["environment"]["isa"] == capabilities()["isa"]
    ours, theirs = (load(tmp_path / name / "last.pt") for name in ("cut", "whole"))
    for name, tensor in theirs["model"].items():
        assert ours["model"][name].numpy().tobytes() == tensor.numpy().tobytes(), name
    other = "torch" if backend != "torch" else "native"
    with pytest.raises(UserError, match=f"backend: {backend} -> {other}"):
        train(tmp_path / "cut", other, resume=True)
