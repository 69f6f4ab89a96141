"""Methods x networks: each builds, takes a step, is counted and exported, or says in one line why not."""

import pytest
import torch
from torch import nn

from ftbnn.budget import count
from ftbnn.errors import UserError
from ftbnn.models import build, find
from ftbnn.nn import METHODS, after_step, method_named, set_progress
from ftbnn.packing import build_graph
from ftbnn.packing.write import InputInfo, encode
from ftbnn.runtime import load

DERIVED = "ftbnn-d18-g2-v5"
NETWORKS = ("resnet18", "ftbnn18", "ftbnn34", "resnet20", "vgg-small", "reactnet-a", DERIVED)
REFUSED = {("cbcn", DERIVED): "multiples of 4 channels"}
SIDE = 16
INFO = InputInfo("it", (0.0,) * 3, (1.0,) * 3, SIDE, ())


def made(method, name):
    entry = find(name)
    settings = {"stem": "small" if entry.has_stems else None, "width": 4 if entry.has_width else None}
    return build(name, **settings, classes=3, method=method, image_size=SIDE)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_with_every_network(method, name):
    torch.manual_seed(0)
    if (method, name) in REFUSED:
        with pytest.raises(UserError, match=REFUSED[method, name]):
            made(method, name)
        return
    network = made(method, name)
    before = {path: tensor.detach().clone() for path, tensor in network.named_parameters()}
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    set_progress(network, 0.0)
    images = torch.randn(4, 3, SIDE, SIDE)
    nn.functional.cross_entropy(network(images), torch.tensor([0, 1, 2, 0])).backward()
    optimizer.step()
    after_step(network)
    still = [path for path, tensor in network.named_parameters() if torch.equal(before[path], tensor)]
    assert len(still) <= len(before) // 2, still  # a bias next to nothing may stay, or one that a BatchNorm takes out

    budget = count(network, (3, SIDE, SIDE))
    assert budget.uncounted == ()
    assert (budget.bops > 0) == (max(method_named(method).bits) < 4)  # others are real-valued work

    network.eval()
    if method_named(method).deploys.startswith("no .ftbnn file"):
        with pytest.raises(UserError, match="cannot export") as caught:
            build_graph(network, images)
        assert "\n" not in str(caught.value)
        return
    file = encode(build_graph(network, images), INFO)
    answers = load(file, threads=1)(images.numpy())
    assert answers.shape == (4, 3)
    with torch.no_grad():
        expected = network(images).numpy()
    # One sign next to its threshold may turn with the order of a sum: of each image the rest is compared.
    close = abs(answers - expected).max(1) <= 1e-3 * abs(expected).max()
    assert close.sum() >= 2
