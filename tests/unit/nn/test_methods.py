"""Every row of the table of methods, and one that a user writes: trained in both backends, counted, exported, run."""

import ast
import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from export_networks import make_dyadic, outputs, randomise
from torch import nn

import ftbnn
from ftbnn.budget import count
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import (
    EDE,
    METHODS,
    BasicBlock,
    BConv,
    Binarizer,
    FPReLU,
    Method,
    Shape,
    Sign,
    Signs,
    Tanh,
    Window,
    after_step,
    method_named,
    set_mode,
    set_progress,
    settle,
    use_backend,
)
from ftbnn.nn.blocks import Ordered
from ftbnn.nn.levels import Levels
from ftbnn.nn.methods.lqnet import LearnedLevels
from ftbnn.nn.methods.reactnet import RPReLU, RSign
from ftbnn.nn.native.block import listening
from ftbnn.nn.rules import GrowingFourier, SharpeningWedge
from ftbnn.nn.scales import MapScale
from ftbnn.nn.transforms import Revived, Standardised, clipped, power_of_two
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
TAKEN_BACK = {"ftbnn", "scaled", "bnn", "bireal", "irnet", "reactnet", "recu", "fda", "bop", "cbcn"}
TAKEN_BACK |= {"xnor", "xnorpp", "proxy-like", "ci-bcnn", "bwn"}
IMAGE = 27
# One other sign would change what deeper layers see: these compute the same roundings.
DEEP = ["ftbnn", "scaled", "bireal", "irnet", "reactnet", "bop", pytest.param(MINE, id="a user's own")]
# Whose numbers can all be small whole ones and powers of two.
EXACT = ["ftbnn", "scaled", "bnn", "xnor", "xnorpp", "bireal", "irnet", "reactnet", "recu", "fda", "bonn", "bop"]
EXACT += ["group-net", "bwn", pytest.param(MINE, id="a user's own")]


def small(method, name="ftbnn18", image=IMAGE):
    torch.manual_seed(0)
    if method == "cbcn" and "-d" in name:
        pytest.skip("cbcn takes multiples of 4 channels")
    network = build(name, classes=3, width=None if "-d" in name else 4, stem="small", method=method)
    return settle(network, (3, image, image))


def exported(method, name):
    """As build_small of the tests of packing, for methods that know the size of images too."""
    network = small(method, name, image=16).double()
    return network, torch.randint(-3, 4, (2, 3, 16, 16)).double()


def sides(network):
    return [side for side in network.modules() if isinstance(side, Binarizer)]


def native_convolutions(network, images):
    """How many binary convolutions the core computes."""
    seen = []
    with listening(lambda *_: seen.append(1)), use_backend("native"), torch.no_grad():
        copy.deepcopy(network)(images)
    return len(seen)


@pytest.mark.parametrize("method", METHODS)
def test_a_block_is_the_same_in_both_backends(method, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", "portable")
    torch.manual_seed(0)
    # A ReLU on sums that are exactly 0, but for the order in which PyTorch adds them, is another one in each backend.
    act = "none" if method in ("xnor", "xnor-k") else method_named(method).act
    block = BasicBlock(16, act=act, follows_relu=False, method=method)
    settle(block, (16, 9, 9))
    set_progress(block, 0.4)
    twin, x = copy.deepcopy(block), torch.randn(4, 16, 9, 9)
    inputs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    for network, given, backend in ((block, inputs[0], "native"), (twin, inputs[1], "torch")):
        with use_backend(backend):
            network(given).square().mean().backward()
    found = [(inputs[0].grad, inputs[1].grad)]
    found += [(p.grad, q.grad) for p, q in zip(block.parameters(), twin.parameters(), strict=True)]
    if method == "group-net":
        found = found[-2:]  # its branches have such a ReLU inside
    for ours, theirs in found:
        assert (ours - theirs).norm() <= 1e-3 * theirs.norm() + 1e-6


@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn-d18-g3-v5"])
@pytest.mark.parametrize("method", DEEP)
def test_a_step_is_the_same_in_both_backends(method, name, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", "portable")  # float gradients: what is left are roundings
    network = small(method, name)
    set_progress(network, 0.4)
    for path, parameter in network.named_parameters():
        if parameter.dim() == 1 and not path.startswith("fc"):
            nn.init.normal_(parameter, std=0.1, mean=float(path.endswith("norm.weight")))
    twin = copy.deepcopy(network)
    images, labels = torch.randn(4, 3, IMAGE, IMAGE), torch.tensor([0, 1, 2, 0])
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
    network = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 3))
    return settle(network, (3, 12, 12))


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
            after_step(network)
            losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_shortcuts_carry_gradients_to_the_first_block_of_every_method():
    """What all blocks add up must not be cut in every one of them: little would be learned."""
    for method in METHODS:
        torch.manual_seed(0)
        network = build("resnet20", classes=10, width=8, method=method, image_size=8)
        shares = []
        for block in network.modules():
            if isinstance(block, Ordered) and isinstance(block.act, nn.Hardtanh):
                block.act.register_forward_hook(
                    lambda _, __, out, to=shares: to.append((out.abs() >= 1).float().mean())
                )
        with torch.no_grad():
            network(torch.randn(16, 3, 8, 8))
        assert sum(shares) <= 0.15 * len(shares), method


CHANNELS, SIDE = 6, 5
ELEMENTS, WEIGHTS = CHANNELS * SIDE**2, 9 * CHANNELS**2
# Of one basic block: real operations (BatchNorm and non-linearity; additions are free) and real numbers.
BY_HAND = {
    "ftbnn": (2 * ELEMENTS, (2 + 2) * CHANNELS),
    "bireal": (ELEMENTS, 2 * CHANNELS),
    "scaled": (ELEMENTS, 2 * CHANNELS),
    "xnorpp": (3 * ELEMENTS, (2 + 1 + 1) * CHANNELS),  # a scale, BatchNorm before, a slope
    "recu": (3 * ELEMENTS, (2 + 1) * CHANNELS),
    "bonn": (3 * ELEMENTS, (2 + 1) * CHANNELS + 1),
    "irnet": (2 * ELEMENTS, 2 * CHANNELS),
    "reactnet": (2 * ELEMENTS, (2 + 1 + 3) * CHANNELS),  # a threshold, and before, slope and after
}


# How many binary convolutions stand for one.
MULTIPLE = {"hwgq": 3 * 2, "lq-net": 3 * 2, "abc": 9, "group-net": 4, "bwn": 0, "ttq": 0, "syq": 0}  # {0, 1}: doubled
MULTIPLE |= {"binaryduo": 2 * 2, "alq-like": 2 * 3 * 2, "rq-like": 0}


@pytest.mark.parametrize("method", METHODS)
def test_bases_planes_and_branches_multiply_what_a_block_costs(method):
    channels = 8
    block = BasicBlock(channels, act=method_named(method).act, follows_relu=False, method=method)
    budget = count(settle(block, (channels, SIDE, SIDE)), (channels, SIDE, SIDE))
    assert budget.uncounted == ()
    more = channels * SIDE**2 if method == "adabin" else 0  # the sums of signs
    assert budget.bops == MULTIPLE.get(method, 1) * SIDE**2 * 9 * channels**2 + more
    if method in MULTIPLE and not MULTIPLE[method]:
        assert budget.flops >= SIDE**2 * 9 * channels**2


@pytest.mark.parametrize("method", BY_HAND)
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
    network, x = exported(method, name)
    found, expected, file = outputs(randomise(network), x)
    torch.testing.assert_close(found, expected, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING * expected.abs().max())
    row = method_named(method)
    if row.order in ("CB+A", "BC+A") and row.conv is None:
        assert "pointwise" not in file.kinds  # whatever the method adds is part of its convolutions


@pytest.mark.parametrize("method", METHODS)
def test_the_engine_gives_the_logits_of_the_evaluation_forward(method, tmp_path):
    network, _ = exported(method, "ftbnn18")
    network = randomise(network).float().eval()
    x = torch.randn(16, 3, 16, 16)
    pack(network, x, tmp_path / "network.ftbnn")
    with torch.no_grad():
        expected = network(x)
    found = torch.from_numpy(load(tmp_path / "network.ftbnn", threads=1)(x.numpy()))
    off = (found - expected).abs().amax(1) > ENGINE_ROUNDING * expected.abs().max()
    assert off.float().mean() <= 1 / 8  # a sign next to its threshold may turn with the order of a sum
    assert (found.argmax(1) == expected.argmax(1))[~off].all()
    if method in ("hwgq", "lq-net", "abc", "adabin"):  # training computes the same in another way
        for layer in network.modules():
            if isinstance(layer, BConv):
                layer.training = True
        with torch.no_grad():
            again = network(x) if method != "lq-net" else expected
        assert ((again - expected).abs().amax(1) <= ENGINE_ROUNDING * expected.abs().max())[~off].all()


@pytest.mark.parametrize("method", [name for name in METHODS if name != "rbnn"])
def test_what_only_training_knows_is_not_in_the_file(method):
    """Schedules, clamps and statistics of images leave what is computed as it is."""
    network, x = small(method, image=16).eval(), torch.randn(2, 3, 16, 16)
    found = []
    with torch.no_grad():
        for share in (0.0, 0.5, 1.0):
            set_progress(network, share)
            found.append(network(x))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_those_of_what_stands_for_the_sign(method, share):
    network = small(method)
    set_progress(network, share)
    x, step = torch.linspace(-2.5, 2.5, 1001, dtype=torch.float64) + 1e-4, 1e-6
    for rule in {side.rule for side in sides(network)}:
        slope = (rule.primitive(x + step) - rule.primitive(x - step)) / (2 * step)
        torch.testing.assert_close(rule.derivative(x), slope, rtol=1e-5, atol=1e-7)


def test_schedules_hit_their_ends():
    assert Revived().at(0).tau == pytest.approx(0.85)
    assert Revived().at(0.5).tau == pytest.approx(0.903, abs=1e-3)
    assert Revived().at(1).tau == pytest.approx(0.99)
    assert (GrowingFourier().at(0).terms, GrowingFourier().at(1).terms) == (9, 18)
    assert (SharpeningWedge().at(0).t, SharpeningWedge().at(1).t) == (pytest.approx(0.01), pytest.approx(10))
    assert SharpeningWedge(of_inputs=True).at(0).numbers == [1, 1]
    weight = torch.randn(8, 4, 3, 3)
    centred = weight - weight.mean((1, 2, 3), keepdim=True)
    torch.testing.assert_close(clipped(weight, 1.0), centred)
    inside = clipped(weight, 0.0).abs()
    low, high = centred.abs().flatten().sort().values[[round(q * 287) for q in (0.15, 0.85)]]
    assert (inside.min(), inside.max()) == (low, high)


def test_levels_pass_gradients_between_their_ends():
    x = torch.tensor([-1.0, 0.1, 0.9, 1.4, 1.7]).view(1, 1, 1, 5).requires_grad_()
    levels = Levels((0.0, 0.807, 1.345), (0.538,) * 3, low=0.0, high=1.614)
    out = levels(x)
    torch.testing.assert_close(out.flatten(), 0.538 * torch.tensor([0.0, 1, 2, 3, 3]))
    out.sum().backward()
    assert x.grad.flatten().tolist() == [0, 1, 1, 1, 0]
    total = sum(step * codes for step, codes in levels.planes(x.detach()))
    torch.testing.assert_close(total, out.detach())


def test_methods_with_numbers():
    assert method_named("abc(5,1)").bits == (5, 1)
    assert sum(isinstance(m, BConv) for m in method_named("group-net(3)").convolution(Shape(4, 4)).modules()) == 3
    with pytest.raises(UserError, match="abc takes 2 numbers"):
        method_named("abc(5)")
    with pytest.raises(UserError, match="1 to 8 bases"):
        method_named("abc(9,1)")


def test_every_method_can_be_laid_out_channels_last():
    """As recipes for a CPU have it."""
    for method in METHODS:
        small(method, image=16).to(memory_format=torch.channels_last)


def test_a_method_of_one_image_size_says_so():
    network = build("ftbnn18", classes=3, width=4, stem="small", method="xnorpp-4", image_size=16)
    network(torch.zeros(2, 3, 16, 16))
    with pytest.raises(UserError, match="it works at one image size alone"):
        network(torch.zeros(2, 3, 32, 32))
    unsettled = build("ftbnn18", classes=3, width=4, stem="small", method="xnorpp-4")
    with pytest.raises(UserError, match="need to know the images"):
        unsettled(torch.zeros(2, 3, 16, 16))


@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn-d18-g3-v9"])
@pytest.mark.parametrize("method", EXACT)
def test_no_sign_differs_in_the_engine(method, name, tmp_path):
    """On numbers that are exact in any order one other sign would show."""
    network, x = exported(method, name)
    found, expected, _ = outputs(make_dyadic(network), x)
    torch.testing.assert_close(found, expected, rtol=FLOAT64_ROUNDING, atol=FLOAT64_ROUNDING)
    pack(network.float().eval(), x.float(), tmp_path / "network.ftbnn")
    with torch.no_grad():
        expected = network(x.float()).numpy()
    engine = load(tmp_path / "network.ftbnn", threads=1)(x.float().numpy())
    np.testing.assert_allclose(engine, expected, rtol=ENGINE_ROUNDING, atol=ENGINE_ROUNDING)


@pytest.mark.parametrize("method", METHODS)
def test_a_network_is_found_again_in_its_file(method, tmp_path):
    trained, x = exported(method, "ftbnn18")
    pack(randomise(trained), x, tmp_path / "network.ftbnn")
    fresh, _ = exported(method, "ftbnn18")
    if method not in TAKEN_BACK:
        with pytest.raises(UserError, match=r"cannot go on from it|it is of another network"):  # it is not guessed
            restore(fresh, read_graph(tmp_path / "network.ftbnn"), "it", [x])
        return
    assert restore(fresh, read_graph(tmp_path / "network.ftbnn"), "it", [x]) == []
    with torch.no_grad():
        expected, found = trained.eval()(x), fresh.eval()(x)
    assert (found - expected).abs().max() < 1e-3 * expected.abs().max()


def test_multi_step_modes_reach_every_methods_sides():
    for method in METHODS:
        network = small(method)
        set_mode(network, activations="tanh", weights="real")
        modes = {side.role: side.mode for side in sides(network)}
        assert modes["weights"] == "real"
        assert modes.get("activations", "tanh") == "tanh"
        budget = count(network, (3, IMAGE, IMAGE))
        assert budget.bops == 0
        row = method_named(method)
        if row.conv is None and method not in ("abc", "ttq"):
            assert budget.uncounted == ()  # thresholds are learned in every mode


def test_a_method_that_does_not_exist_is_named():
    with pytest.raises(UserError, match="unknown method 'irnett'; did you mean irnet"):
        build("ftbnn18", method="irnett")
    with pytest.raises(UserError, match="toy-relu is not made binary by a method of choice"):
        build("toy-relu", method="irnet")
    with pytest.raises(UserError, match=r"a method is a name or an ftbnn.nn.Method, not an int"):
        build("ftbnn18", method=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({"order": order}, "the order of a block is one of CB.A, ") for order in ("ABC", "B+C", "cb+a", "", None)),
        ({"act": "preluu"}, "unknown non-linearity 'preluu'; did you mean prelu"),
        ({"stage_end_act": "rellu"}, "unknown non-linearity 'rellu'"),
        ({"stem_act": 3}, "a non-linearity is a name or makes a module for so many channels, not an int"),
        ({"act": nn.PReLU()}, "not a PReLU"),
    ],
)
def test_a_row_that_cannot_be_is_refused_where_it_is_written(settings, message):
    with pytest.raises(UserError, match=message):
        Method("mine", **settings)


def test_the_gradient_of_irnet_sharpens_from_end_to_end():
    ede = EDE()
    assert ede.at(0.0) == Tanh(pytest.approx(0.1), pytest.approx(10.0))
    assert ede.at(0.5) == Tanh(pytest.approx(1.0), pytest.approx(1.0))
    assert ede.at(1.0) == Tanh(pytest.approx(10.0), 1.0)
    assert EDE(first=1e-3).at(0.0).t == pytest.approx(1e-3)
    network = small("irnet")
    for share in (0.0, 0.25, 1.0):
        set_progress(network, share)
        assert {side.rule for side in sides(network)} == {ede.at(share)}


def test_weights_of_irnet_are_standardised_and_scaled_by_powers_of_two():
    weight = torch.randn(5, 4, 3, 3) * 3 + 1
    signs = Signs(EDE(), transform=Standardised(), magnitude=power_of_two)
    latent = signs.latent(weight)
    assert latent.mean((1, 2, 3)).abs().max() < 1e-6
    torch.testing.assert_close(latent.std((1, 2, 3)), torch.ones(5))
    scale = signs.scale(latent)
    assert torch.equal(scale.log2(), scale.log2().round())
    assert torch.equal(signs(weight), torch.where(latent > 0, 1.0, -1.0) * scale.view(-1, 1, 1, 1))


def test_gradients_flow_through_mean_and_deviation_of_irnet():
    weight = torch.randn(3, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    signs = Signs(EDE(), transform=Standardised(), magnitude=power_of_two)
    incoming = torch.randn(3, 4, 3, 3, dtype=torch.float64)
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
    assert {"adabin", "binaryduo", "reactnet"} <= {path.stem for path in files}
    # Experiments compare methods, a network may come with one, and the authors of checkpoints have theirs.
    allowed = {"experiments", "models", "authors.py"}
    files_of_others = [path for path in SOURCES.rglob("*.py") if not allowed & set(path.parts)]
    names = {path: set(names_in(path)) for path in files_of_others}
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


def test_scales_of_places_are_the_same_in_training_and_in_evaluation():
    torch.manual_seed(0)
    scale, out = MapScale(5), torch.randn(2, 5, 4, 3)
    scale.take_size(4, 3)
    for parameter in scale.parameters():
        nn.init.normal_(parameter)
    found = []
    for training in (True, False):
        scale.train(training).zero_grad()
        given = out.clone().requires_grad_()
        y = scale(given, given)
        y.backward(torch.cos(out))
        found.append([y.detach(), given.grad, *(parameter.grad for parameter in scale.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_lq_nets_basis_is_the_least_squares_of_what_is_read():
    torch.manual_seed(0)
    quantise, x = LearnedLevels(), torch.randn(2, 3, 20, 20)
    before, levels = quantise.basis.clone(), quantise(x)  # a step of learning; levels are those after it
    steps = torch.stack([torch.zeros(()), before[0], before[1], before.sum()])
    middles = (steps[1:] + steps[:-1]) / 2
    codes = torch.tensor([[0.0, 0], [1, 0], [0, 1], [1, 1]])[torch.searchsorted(middles, x.flatten())]
    fitted = torch.linalg.lstsq(codes.double(), x.clamp_min(0).flatten().double()[:, None]).solution.flatten()
    torch.testing.assert_close(quantise.basis.double(), 0.9 * before.double() + 0.1 * fitted, rtol=1e-4, atol=0)
    assert set(levels.unique().tolist()) <= {0.0, *quantise.steps.cumsum(0).tolist()}
