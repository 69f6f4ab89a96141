"""A file goes back into a network: the same function, with BatchNorms that know their inputs."""

import copy
from dataclasses import replace

import pytest
import torch
from export_networks import Forward, build_small, randomise, small_networks
from torch import nn

from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import BConv, Sign, sign
from ftbnn.nn.methods.reactnet import RPReLU, RSign
from ftbnn.packing import pack
from ftbnn.packing.graph import Epilogue, Pointwise, Value
from ftbnn.packing.read import read_graph
from ftbnn.packing.restore import restore


def packed(network, x, path):
    pack(network, x, path)
    return read_graph(path)


def norms(network):
    return {name: layer for name, layer in network.named_modules() if isinstance(layer, nn.BatchNorm2d)}


@torch.no_grad()
def statistics(network, x):
    """Mean and variance of what each BatchNorm reads."""
    found = {}
    network = copy.deepcopy(network).eval()
    for name, layer in norms(network).items():
        layer.register_forward_pre_hook(
            lambda _, inputs, name=name: found.update({name: torch.var_mean(inputs[0], (0, 2, 3), correction=0)})
        )
    network(x)
    return found


@pytest.mark.parametrize(("name", "stem"), small_networks())
def test_every_network_comes_back(name, stem, tmp_path):
    torch.manual_seed(0)
    trained, x = build_small(name, stem)
    graph = packed(randomise(trained), x, tmp_path / "network.ftbnn")
    fresh, _ = build_small(name, stem)
    fresh.train()
    if name.startswith("bnext"):  # layers of two matrices
        with pytest.raises(UserError, match=r"cannot go on from it: .* is not made of layers that take numbers back"):
            restore(fresh, graph, "it", [x])
        return
    assert restore(fresh, graph, "it", [x]) == []
    assert fresh.training
    with torch.no_grad():
        expected, found = trained.eval()(x), copy.deepcopy(fresh).eval()(x)
    scale = expected.abs().max()
    assert (found - expected).abs().max() < 1e-3 * scale
    for layer, (variance, mean) in statistics(fresh, x).items():
        norm = norms(fresh)[layer]
        assert torch.allclose(norm.running_mean, mean, rtol=1e-4, atol=1e-4)
        assert torch.allclose(norm.running_var, variance, rtol=1e-4, atol=1e-4)


def test_statistics_are_of_all_batches(tmp_path):
    torch.manual_seed(0)
    trained, _ = build_small("ftbnn18", "small")
    x = torch.randn(6, 3, 32, 32).double()
    graph = packed(randomise(trained), x, tmp_path / "network.ftbnn")
    whole, parts = (build_small("ftbnn18", "small")[0] for _ in range(2))
    restore(whole, graph, "it", [x])
    restore(parts, graph, "it", [x[:1], x[1:3], x[3:]])
    for one, other in zip(norms(whole).values(), norms(parts).values(), strict=True):
        assert torch.allclose(one.running_mean, other.running_mean)
        assert torch.allclose(one.running_var, other.running_var)


def test_images_may_have_another_size(tmp_path):
    trained, x = build_small("ftbnn18", "small")
    graph = packed(trained, x, tmp_path / "network.ftbnn")
    fresh, _ = build_small("ftbnn18", "small")
    assert restore(fresh, graph, "it", [x[:, :, :8, :8]]) == []
    assert torch.equal(fresh.stage4[3].conv.weight > 0, trained.stage4[3].conv.weight > 0)


def test_a_classifier_of_another_shape_stays_fresh(tmp_path):
    trained, x = build_small("ftbnn18", "small")
    graph = packed(trained, x, tmp_path / "network.ftbnn")
    fresh = build("ftbnn18", classes=7, stem="small", width=4).double()
    before = fresh.fc.weight.clone()
    assert restore(fresh, graph, "it", [x]) == ["fc.weight", "fc.bias"]
    assert torch.equal(fresh.fc.weight, before)
    assert torch.equal(fresh.stage1[0].conv.weight > 0, trained.stage1[0].conv.weight > 0)


@pytest.mark.parametrize(
    ("name", "width", "message"),
    [
        ("ftbnn18", 8, r"its stem.conv is \(4, 3, 3, 3\), here it is \(8, 3, 3, 3\)"),
        ("ftbnn34", 4, "operators learn"),
        ("bireal18", 4, "is of another network"),
        ("resnet18", 4, "is of another network"),
    ],
)
def test_another_network_is_refused(name, width, message, tmp_path):
    trained, x = build_small("ftbnn18", "small")
    graph = packed(trained, x, tmp_path / "network.ftbnn")
    other = build(name, classes=3, stem="small", width=width).double()
    with pytest.raises(UserError, match=message):
        restore(other, graph, "it", [x])


def layers_of_a_user(**children):
    """Biases, one slope for all channels, a BatchNorm behind neither."""
    return Forward(
        lambda self, x: self.head(self.act(self.norm(self.conv(self.sign(self.stem(x)))))).mean((2, 3)),
        stem=nn.Conv2d(3, 8, 3),
        sign=Sign(),
        conv=BConv(8, 8),
        norm=nn.BatchNorm2d(8),
        act=nn.PReLU(),
        head=nn.Conv2d(8, 5, 1),
        **children,
    )


def test_a_network_of_a_user_comes_back(tmp_path):
    torch.manual_seed(0)
    trained, x = randomise(layers_of_a_user()), torch.randn(4, 3, 9, 9)
    graph = packed(trained, x, tmp_path / "network.ftbnn")
    fresh = layers_of_a_user()
    assert restore(fresh, graph, "it", [x]) == []
    with torch.no_grad():
        assert torch.allclose(fresh.eval()(x), trained.eval()(x), rtol=1e-4, atol=1e-4)


def test_thresholds_and_knees_of_a_user_come_back(tmp_path):
    """Signs that stand alone, and an addition behind a slope."""

    def network():
        layers = [nn.Conv2d(3, 8, 3), RSign(8), BConv(8, 8, groups=3), nn.BatchNorm2d(8), RPReLU(8), RSign(8)]
        return nn.Sequential(*layers, BConv(8, 8), nn.BatchNorm2d(8), nn.Hardtanh())

    trained, fresh, x = randomise(network()), network(), torch.randn(4, 3, 9, 9)
    assert restore(fresh, packed(trained, x, tmp_path / "network.ftbnn"), "it", [x]) == []
    torch.testing.assert_close(fresh[1].bias, trained[1].bias)
    torch.testing.assert_close(fresh[4].after, trained[4].after)
    with torch.no_grad():
        assert torch.allclose(fresh.eval()(x), trained.eval()(x), rtol=1e-4, atol=1e-4)


def test_a_file_whose_additions_stand_alone_is_of_the_same_network(tmp_path):
    """As files of version 1 have it: what is added behind a non-linearity was an operator of its own."""
    parts = {"conv": nn.Conv2d(3, 4, 3), "offset": nn.Parameter(torch.randn(4, 1, 1)), "head": nn.Conv2d(4, 2, 1)}
    network = Forward(lambda m, x: m.head(torch.relu(m.conv(x)) + m.offset), **parts)
    x = torch.randn(2, 3, 6, 6)
    pack(network, x, tmp_path / "network.ftbnn")
    graph = read_graph(tmp_path / "network.ftbnn")
    conv, head = graph.operators
    between = Value(conv.output.channels, conv.output.height, conv.output.width)
    after = Pointwise("add", (between,), conv.output, Epilogue(shift=conv.epilogue.after))
    conv.epilogue, conv.output = replace(conv.epilogue, after=None), between
    assert restore(network, replace(graph, operators=(conv, after, head)), "it") == []


def test_what_cannot_be_written_back_is_said(tmp_path):
    def network(size):
        made = layers_of_a_user()
        made.size = nn.Parameter(torch.full((1, 5, 1, 1), size))
        made.function = lambda self, x: (self.head(self.norm(self.conv(self.sign(self.stem(x))))) * self.size).mean(
            (2, 3)
        )
        return made

    x = torch.randn(4, 3, 9, 9)
    graph = packed(network(2.0), x, tmp_path / "network.ftbnn")
    with pytest.raises(UserError, match="head is not made of layers that take numbers back"):
        restore(network(3.0), graph, "it", [x])


def test_layers_that_do_more_than_their_class_says_are_refused(tmp_path):
    class Binary(nn.Conv2d):
        def forward(self, x):
            return nn.functional.conv2d(x, sign(self.weight))

    class Late(nn.Conv2d):
        def forward(self, x):
            return super().forward(nn.functional.leaky_relu(x, self.slope))

    x = torch.randn(2, 8, 9, 9)
    for make in (lambda: nn.Sequential(Sign(), Binary(8, 8, 3, bias=False)), lambda: nn.Sequential(Late(8, 8, 3))):
        networks = [make(), make()]
        for network, slope in zip(networks, (0.1, 0.2), strict=True):
            network[-1].slope = slope
        graph = packed(networks[0], x, tmp_path / "network.ftbnn")
        with pytest.raises(UserError, match="not made of layers that take numbers back"):
            restore(networks[1], graph, "it", [x])
