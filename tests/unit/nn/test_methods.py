"""Every row of the table of methods, and one that a user writes: trained in both backends, counted, exported, run."""

import ast
import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from export_networks import build_small, make_dyadic, outputs, randomise
from torch import nn

import ftbnn
from ftbnn.budget import count
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import (
    METHODS,
    BasicBlock,
    BConv,
    Binarizer,
    FPReLU,
    Method,
    Sign,
    Signs,
    Tanh,
    Window,
    method_named,
    set_mode,
    set_progress,
    use_backend,
)
from ftbnn.nn.methods.irnet import EDE, StandardisedSigns
from ftbnn.nn.methods.reactnet import RPReLU, RSign
from ftbnn.nn.native.block import listening
from ftbnn.packing import pack
from ftbnn.packing.read import read_graph
from ftbnn.packing.restore import restore
from ftbnn.runtime import load

SOURCES = Path(ftbnn.__file__).parent
FLOAT32_ROUNDING = 1e-5  # scales and shifts of the file, over the depth of a network
FLOAT64_ROUNDING = 1e-12  # averages of nine are not dyadic
ENGINE_ROUNDING = 1e-4  # float32 sums behind a global mean


class OffsetSign(Sign):
    """A user's own: as many thresholds as channels, and a gradient that is wider than the paper's."""

    def __init__(self, channels, follows_relu):
        super().__init__(zero_one=follows_relu, rule=Window(2.0))
        self.offset = nn.Parameter(torch.zeros(channels))

    def shift(self):
        return self.offset


class LargestSigns(Signs):
    """A user's own: filters scaled by their largest weight."""

    def scale(self, latent):
        return latent.abs().amax(dim=(1, 2, 3))


MINE = Method("a user's own", input=OffsetSign, signs=LargestSigns, act="prelu", stage_end_act="relu")
ROWS = [*METHODS, pytest.param(MINE, id="a user's own")]


def small(method, name="ftbnn18"):
    torch.manual_seed(0)
    return build(name, classes=3, width=None if "-d" in name else 4, stem="small", method=method)


def native_convolutions(network, images):
    """How many binary convolutions the core computes."""
    seen = []
    with listening(lambda *_: seen.append(1)), use_backend("native"), torch.no_grad():
        copy.deepcopy(network)(images)
    return len(seen)


@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn-d18-g3-v5"])
@pytest.mark.parametrize("method", ROWS)
def test_a_step_is_the_same_in_both_backends(method, name, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", "portable")  # float gradients: what is left are roundings
    network = small(method, name)
    set_progress(network, 0.4)
    for path, parameter in network.named_parameters():
        if parameter.dim() == 1 and not path.startswith("fc"):
            nn.init.normal_(parameter, std=0.1, mean=float(path.endswith("norm.weight")))
    twin = copy.deepcopy(network)
    images, labels = torch.randn(4, 3, 27, 27), torch.tensor([0, 1, 2, 0])
    assert native_convolutions(network, images) == sum(isinstance(m, BConv) for m in network.modules())
    with use_backend("native"):
        losses = [nn.functional.cross_entropy(network(images), labels)]
        losses[0].backward()
    losses.append(nn.functional.cross_entropy(twin(images), labels))
    losses[1].backward()
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    for (path, ours), theirs in zip(network.named_parameters(), twin.parameters(), strict=True):
        assert (ours.grad - theirs.grad).norm() <= 1e-3 * theirs.grad.norm() + 1e-6, path


def shallow(method):
    torch.manual_seed(0)
    act = method_named(method).act
    blocks = [BasicBlock(16, act=act, follows_relu=False, method=method) for _ in range(2)]
    stem = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 3))


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("method", ROWS)
def test_the_loss_goes_down(method, backend):
    network, steps = shallow(method), 25
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    labels = torch.arange(24) % 3
    images = torch.randn(3, 3, 12, 12)[labels] + 0.5 * torch.randn(24, 3, 12, 12)
    losses = []
    with use_backend(backend):
        for step in range(steps):
            set_progress(network, step / steps)
            loss = nn.functional.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


CHANNELS, SIDE = 6, 5
ELEMENTS, WEIGHTS = CHANNELS * SIDE**2, 9 * CHANNELS**2
# Of one basic block: real operations (BatchNorm and non-linearity; additions are free) and real numbers.
BY_HAND = {
    "ftbnn": (2 * ELEMENTS, (2 + 2) * CHANNELS),
    "bireal": (ELEMENTS, 2 * CHANNELS),
    "irnet": (2 * ELEMENTS, 2 * CHANNELS),
    "reactnet": (2 * ELEMENTS, (2 + 1 + 3) * CHANNELS),  # a threshold, and before, slope and after
}


@pytest.mark.parametrize("method", METHODS)
def test_a_block_costs_what_it_costs_by_hand(method):
    block = BasicBlock(CHANNELS, act=method_named(method).act, follows_relu=False, method=method)
    budget = count(block, (CHANNELS, SIDE, SIDE))
    flops, numbers = BY_HAND[method]
    assert budget.uncounted == ()
    assert (budget.flops, budget.bops) == (flops, SIDE**2 * WEIGHTS)
    assert budget.params == numbers + WEIGHTS / 32
    assert budget.packed_bytes == 4 * numbers + -(-WEIGHTS // 8)


def test_a_users_method_is_counted_as_any():
    ours, baseline = count(small(MINE), (3, 16, 16)), count(small("ftbnn"), (3, 16, 16))
    assert ours.uncounted == ()
    assert (ours.flops, ours.bops) == (baseline.flops, baseline.bops)


@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn-d18-g3-v9"])
@pytest.mark.parametrize("method", ROWS)
def test_a_file_computes_what_the_evaluation_forward_does(method, name):
    network, x = build_small(name, "small", method)
    found, expected, file = outputs(randomise(network), x)
    torch.testing.assert_close(found, expected, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING * expected.abs().max())
    assert "pointwise" not in file.kinds  # whatever the method adds is part of its convolutions


@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn-d18-g3-v9"])
@pytest.mark.parametrize("method", ROWS)
def test_no_sign_differs_in_the_engine(method, name, tmp_path):
    """On numbers that are exact in any order one other sign would show."""
    network, x = build_small(name, "small", method)
    found, expected, _ = outputs(make_dyadic(network), x)
    torch.testing.assert_close(found, expected, rtol=FLOAT64_ROUNDING, atol=FLOAT64_ROUNDING)
    pack(network.float().eval(), x.float(), tmp_path / "network.ftbnn")
    with torch.no_grad():
        expected = network(x.float()).numpy()
    engine = load(tmp_path / "network.ftbnn", threads=1)(x.float().numpy())
    np.testing.assert_allclose(engine, expected, rtol=ENGINE_ROUNDING, atol=ENGINE_ROUNDING)


@pytest.mark.parametrize("method", METHODS)
def test_a_network_is_found_again_in_its_file(method, tmp_path):
    trained, x = build_small("ftbnn18", "small", method)
    pack(randomise(trained), x, tmp_path / "network.ftbnn")
    fresh, _ = build_small("ftbnn18", "small", method)
    assert restore(fresh, read_graph(tmp_path / "network.ftbnn"), "it", [x]) == []
    with torch.no_grad():
        expected, found = trained.eval()(x), fresh.eval()(x)
    assert (found - expected).abs().max() < 1e-3 * expected.abs().max()


def test_multi_step_modes_reach_every_methods_sides():
    for method in METHODS:
        network = small(method)
        set_mode(network, activations="tanh", weights="real")
        modes = {side.role: side.mode for side in network.modules() if isinstance(side, Binarizer)}
        assert modes == {"activations": "tanh", "weights": "real"}
        budget = count(network, (3, 16, 16))
        assert budget.bops == 0
        assert budget.uncounted == ()  # thresholds are learned in every mode


def test_a_method_that_does_not_exist_is_named():
    with pytest.raises(UserError, match="unknown method 'irnett'; did you mean irnet"):
        build("ftbnn18", method="irnett")
    with pytest.raises(UserError, match="resnet18 is not made binary by a method"):
        build("resnet18", method="irnet")


def test_the_gradient_of_irnet_sharpens_from_end_to_end():
    ede = EDE()
    assert ede.at(0.0) == Tanh(pytest.approx(0.1), pytest.approx(10.0))
    assert ede.at(0.5) == Tanh(pytest.approx(1.0), pytest.approx(1.0))
    assert ede.at(1.0) == Tanh(pytest.approx(10.0), 1.0)
    assert EDE(first=1e-3).at(0.0).t == pytest.approx(1e-3)
    network = small("irnet")
    for share in (0.0, 0.25, 1.0):
        set_progress(network, share)
        rules = {side.rule for side in network.modules() if isinstance(side, Binarizer)}
        assert rules == {ede.at(share)}


def test_weights_of_irnet_are_standardised_and_scaled_by_powers_of_two():
    weight = torch.randn(5, 4, 3, 3) * 3 + 1
    signs = StandardisedSigns()
    latent = signs.latent(weight)
    assert latent.mean((1, 2, 3)).abs().max() < 1e-6
    torch.testing.assert_close(latent.std((1, 2, 3)), torch.ones(5))
    scale = signs.scale(latent)
    assert torch.equal(scale.log2(), scale.log2().round())
    assert torch.equal(signs(weight), torch.where(latent > 0, 1.0, -1.0) * scale.view(-1, 1, 1, 1))


def test_gradients_flow_through_mean_and_deviation_of_irnet():
    weight = torch.randn(3, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    signs, incoming = StandardisedSigns(), torch.randn(3, 4, 3, 3, dtype=torch.float64)
    (found,) = torch.autograd.grad(signs(weight), weight, incoming)
    standard = (weight - weight.mean((1, 2, 3), keepdim=True)) / weight.std((1, 2, 3), keepdim=True)
    smooth = signs.rule.primitive(standard) * signs.scale(standard.detach()).view(-1, 1, 1, 1)
    (expected,) = torch.autograd.grad(smooth, weight, incoming)
    torch.testing.assert_close(found, expected)


def test_thresholds_and_knees_of_reactnet():
    sign, act = RSign(2), RPReLU(2)
    sign.bias.data = torch.tensor([0.5, -0.5])
    x = torch.tensor([[-0.6, -0.4, 0.4, 0.6], [-0.6, -0.4, 0.4, 0.6]]).view(1, 2, 2, 2).requires_grad_()
    out = sign(x)
    assert out.flatten().tolist() == [-1, 1, 1, 1, -1, -1, -1, 1]
    out.sum().backward()
    shifted = x.detach() + sign.bias.view(2, 1, 1)
    slopes = (2 - 2 * shifted.abs()).clamp_min(0)
    torch.testing.assert_close(x.grad, slopes)
    torch.testing.assert_close(sign.bias.grad, slopes.sum((0, 2, 3)))
    act.before.data, act.after.data = torch.tensor([0.5, -0.5]), torch.tensor([1.0, 2.0])
    expected = torch.where(shifted > 0, shifted, 0.25 * shifted) + act.after.view(2, 1, 1)
    torch.testing.assert_close(act(x), expected)


def names_in(path):
    """Every name, attribute and word of a file's strings."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.replace("-", "").lower().split()


def test_one_file_and_one_row_name_a_method():
    """What a method brings is known in its own file alone; the table names the file."""
    folder = SOURCES / "nn" / "methods"
    files = [path for path in folder.glob("*.py") if path.stem != "__init__"]
    assert {"irnet", "reactnet"} <= {path.stem for path in files}
    names = {path: set(names_in(path)) for path in SOURCES.rglob("*.py")}
    for file in files:
        own = {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}
        own |= {file.stem, file.stem.upper()}
        assert {path for path, found in names.items() if own & found} == {file, folder / "__init__.py"}


def test_a_bare_sign_and_convolution_of_a_users_network_train_natively(monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", "portable")
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3), Sign(), BConv(8, 12, groups=3), nn.BatchNorm2d(12), nn.Tanh(), BConv(12, 5, 1, input=Sign())
    )
    twin, images = copy.deepcopy(network), torch.randn(4, 3, 9, 9)
    assert native_convolutions(network, images) == 2
    for net, backend in ((network, "native"), (twin, "torch")):
        with use_backend(backend):
            net(images).square().mean().backward()
    for (path, ours), theirs in zip(network.named_parameters(), twin.parameters(), strict=True):
        assert (ours.grad - theirs.grad).norm() <= 1e-3 * theirs.grad.norm() + 1e-6, path


def test_a_real_input_of_a_bare_convolution_is_left_to_torch():
    conv, x = BConv(4, 4), torch.randn(2, 4, 5, 5)
    assert native_convolutions(conv, x) == 0
    assert native_convolutions(conv, x.sign()) == 1
    assert native_convolutions(conv, (x > 0).float()) == 1


class Doubled(FPReLU):
    """More than its class says: what it inherits describes only half of it."""

    def forward(self, x):
        return 2 * super().forward(x)


class Halved(Signs):
    def forward(self, weight):
        return super().forward(weight) / 2


class Turned(Sign):
    def forward(self, x):
        return -super().forward(x)


@pytest.mark.parametrize("part", ["act", "signs", "input", "conv"])
def test_subclasses_with_a_forward_of_their_own_are_called(part):
    class Scaled(BConv):
        def forward(self, x):
            return 3 * super().forward(x)

    block = BasicBlock(6, act="fprelu", follows_relu=False).eval()
    if part == "act":
        block.act = Doubled(6)
    elif part == "conv":
        block.conv = Scaled(6, 6, input=Sign())
    else:
        setattr(block.conv, part, {"signs": Halved, "input": Turned}[part]())
    x = torch.randn(2, 6, 5, 5)
    expected = block(x)
    with use_backend("native"):
        torch.testing.assert_close(block(x), expected)


def test_the_largest_weight_scales_a_users_filters():
    conv = BConv(2, 3, 1, signs=LargestSigns())
    assert torch.equal(conv.signs(conv.weight).abs().amax((1, 2, 3)), conv.weight.abs().amax((1, 2, 3)))
    assert math.isfinite(conv(torch.ones(1, 2, 1, 1)).sum().item())
