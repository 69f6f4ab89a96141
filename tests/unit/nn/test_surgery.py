"""What is done to networks of a method after they are built: taken apart, put together, given edges."""

import json

import pytest
import torch
from torch import nn

from ftbnn.budget import count
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import BasicBlock, BConv, Ensemble, Shape, decouple, method_named
from ftbnn.packing import pack
from ftbnn.runtime import load

ROUNDING = 1e-5


def network_of(method, name="ftbnn18", width=4):
    return build(name, classes=3, width=width, stem="small", method=method, image_size=16)


def with_statistics(network):
    """After two steps, so that running statistics and thresholds are not those of the start."""
    for _ in range(2):
        network(torch.randn(8, 3, 16, 16)).square().mean().backward()
    return network.eval()


@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn-d18-g2-v8"])
def test_decoupling_keeps_the_function_and_makes_it_binary(name, tmp_path):
    torch.manual_seed(0)
    network = with_statistics(network_of("binaryduo", name, None if "-d18" in name else 4))
    x = torch.randn(4, 3, 16, 16)
    coupled = count(network, (3, 16, 16))
    with torch.no_grad():
        expected = network(x)
        assert decouple(network) > 0
        torch.testing.assert_close(network(x), expected, rtol=ROUNDING, atol=ROUNDING)
    assert count(network, (3, 16, 16)).bops == coupled.bops
    convolutions = [layer for layer in network.modules() if isinstance(layer, BConv)]
    assert all(layer.input.planes(x) is None for layer in convolutions)
    pack(network, x, tmp_path / "network.ftbnn")
    found = torch.from_numpy(load(tmp_path / "network.ftbnn", threads=1)(x.numpy()))
    torch.testing.assert_close(found, expected, rtol=ROUNDING, atol=ROUNDING)
    network.train()(torch.randn(8, 3, 16, 16)).square().mean().backward()
    assert all(layer.weight.grad is not None and layer.input.thresholds.grad is not None for layer in convolutions)


def test_what_cannot_be_decoupled_is_said():
    with pytest.raises(UserError, match="nothing to decouple"):
        decouple(network_of("bireal"))
    with pytest.raises(UserError, match="uneven groups"):
        decouple(network_of("binaryduo", "ftbnn-d18-g3-v5", None))


@pytest.mark.parametrize("method", ["ftbnn", "reactnet", "hwgq"])
def test_an_ensemble_is_the_mean_of_its_members_also_as_a_file(method, tmp_path):
    torch.manual_seed(0)
    members = [with_statistics(network_of(method)) for _ in range(3)]
    ensemble, x = Ensemble(members).eval(), torch.randn(4, 3, 16, 16)
    with torch.no_grad():
        expected = torch.stack([member(x) for member in members]).mean(0)
        torch.testing.assert_close(ensemble(x), expected)
    alone = count(members[0], (3, 16, 16))
    assert count(ensemble, (3, 16, 16)).bops == 3 * alone.bops
    pack(ensemble, x, tmp_path / "ensemble.ftbnn")
    found = torch.from_numpy(load(tmp_path / "ensemble.ftbnn", threads=1)(x.numpy()))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_members_of_an_ensemble_are_several_and_alike():
    member = nn.Linear(3, 2)
    with pytest.raises(UserError, match="needs members"):
        Ensemble([])
    with pytest.raises(UserError, match="different members"):
        Ensemble([member, member])
    with pytest.raises(UserError, match="different classes"):
        Ensemble([member, nn.Linear(3, 4)])(torch.zeros(1, 3))


def written(folder, **told):
    path = folder / "edges.json"
    path.write_text(json.dumps({"threshold": 4, "edges": {"1": [[0, 2, 3.0], [1, 2, -1.0]]}} | told))
    return path


def test_edges_move_other_channels(tmp_path):
    torch.manual_seed(0)
    method = method_named(f"ci-bcnn({written(tmp_path)})")
    plain, moved = (method.convolution(Shape(4, 4)) for _ in range(2))
    assert plain.scale is None
    plain.weight.data, x = moved.weight.data, torch.randn(2, 4, 6, 6, requires_grad=True)
    before, after = plain(x), moved(x)
    sides = (before >= 4).float() - (before <= -4).float()
    assert sides.abs().sum() > 0
    expected = before.clone()
    expected[:, 2] += 3 * sides[:, 0] - sides[:, 1]
    torch.testing.assert_close(after, expected)
    grads = [torch.autograd.grad(out.sum(), x)[0] for out in (before, after)]
    assert torch.equal(*grads)  # what is added has no gradient


def test_a_network_with_edges_is_written(tmp_path):
    torch.manual_seed(0)
    network = with_statistics(network_of(f"ci-bcnn({written(tmp_path)})"))
    x = torch.randn(8, 3, 16, 16)
    pack(network, x, tmp_path / "network.ftbnn")
    with torch.no_grad():
        expected = network(x)
    found = torch.from_numpy(load(tmp_path / "network.ftbnn", threads=1)(x.numpy()))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert count(network, (3, 16, 16)).flops > count(network_of("ci-bcnn"), (3, 16, 16)).flops


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"threshold": 0.5}, "threshold 1 or more"),
        ({"edges": {"0": [[0, 1]]}}, "an edge is"),
        ({"edges": {"0": [[0, 9, 1.0]]}}, "no channel 9 among 4"),
        ({"edges": [1]}, "holds no edges"),
    ],
)
def test_a_file_of_edges_that_is_wrong_is_said(told, why, tmp_path):
    path = written(tmp_path, **told)
    with pytest.raises(UserError, match=why):
        BasicBlock(4, act="none", follows_relu=False, method=f"ci-bcnn({path})")
    with pytest.raises(UserError, match="holds no edges"):
        method_named("ci-bcnn(nowhere.json)")
