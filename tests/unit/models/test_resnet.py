import pytest
import torch

from ftbnn.models import build
from ftbnn.models.skeleton import skeleton


def torchvision_keys(blocks):
    """The parameter names of torchvision's ResNet with basic blocks, from its documented structure."""
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    keys = ["conv1.weight", *(f"bn1.{n}" for n in norm)]
    for layer, count in enumerate(blocks, start=1):
        for block in range(count):
            at = f"layer{layer}.{block}"
            for k in (1, 2):
                keys += [f"{at}.conv{k}.weight", *(f"{at}.bn{k}.{n}" for n in norm)]
            if layer > 1 and block == 0:
                keys += [f"{at}.downsample.0.weight", *(f"{at}.downsample.1.{n}" for n in norm)]
    return [*keys, "fc.weight", "fc.bias"]


@pytest.mark.parametrize(
    ("name", "blocks", "parameters"), [("resnet18", (2, 2, 2, 2), 11_689_512), ("resnet34", (3, 4, 6, 3), 21_797_672)]
)
def test_names_and_sizes_are_torchvisions(name, blocks, parameters):
    with skeleton():
        module = build(name)
    assert list(module.state_dict()) == torchvision_keys(blocks)
    assert sum(p.numel() for p in module.parameters()) == parameters
    assert module.layer2[0].downsample[0].weight.shape == (128, 64, 1, 1)


def test_runs_on_images():
    assert build("resnet18", width=8, classes=5)(torch.randn(2, 3, 64, 64)).shape == (2, 5)
