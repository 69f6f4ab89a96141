import pytest
import torch
import torch.nn.functional as F
from export_networks import export_and_read, make_dyadic, outputs, randomise
from torch import nn

from ftbnn.models import build
from ftbnn.nn import BasicBlock, BConv, Bridge, DuplicateReduction, FPReLU, ProjectionReduction, Sign

FLOAT32_ROUNDING = 1e-6


def check(module, *shape):
    found, expected, file = outputs(randomise(module.double()), torch.randn(2, *shape, dtype=torch.float64))
    torch.testing.assert_close(found, expected, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING)
    return file


def steps(operator):
    """What an epilogue does, in order."""
    names = [name for name in ("scale", "shift", "shortcut") if getattr(operator, name) is not None]
    return [*names, *([] if operator.act == "none" else [operator.act])]


def test_a_basic_block_is_one_operator():
    for act in ("relu", "prelu", "fprelu"):
        (operator,) = check(BasicBlock(6, act=act, follows_relu=False), 6, 5, 5).operators
        assert (operator.kind, operator.path) == ("bconv", "conv")
        assert steps(operator) == ["scale", "shift", "shortcut", act]


def test_a_projection_is_computed_first_and_added_in_the_binary_convolution():
    file = check(ProjectionReduction(4, act="relu", follows_relu=True), 4, 7, 7)
    assert file.kinds == ["avg-pool", "conv", "bconv"]
    pool, project, binary = file.operators
    assert not pool.whole
    assert steps(project) == ["scale", "shift"]
    assert steps(binary) == ["scale", "shift", "shortcut", "relu"]
    assert (binary.inputs, binary.shortcut, binary.zero_one) == ([0], project.output, True)


def test_a_duplicate_reduction_repeats_its_input_once():
    file = check(DuplicateReduction(3, groups=3, act="fprelu", follows_relu=False), 3, 6, 6)
    assert sorted(file.kinds) == ["avg-pool", "bconv", "channels"]
    (channels,) = (operator for operator in file.operators if operator.kind == "channels")
    assert channels.map.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_bridge_is_a_channel_map_and_a_convolution():
    file = check(Bridge(3, 7), 3, 5, 5)
    assert file.kinds == ["channels", "bconv"]
    assert file.operators[0].map.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_the_baseline_has_no_operator_too_many():
    file = export_and_read(build("ftbnn18", width=4, classes=3), torch.zeros(1, 3, 64, 64))
    reduction = ["avg-pool", "conv"]
    binary = ["bconv"] * 4
    assert file.kinds == (["conv", "max-pool", *binary] + 3 * [*reduction, *binary] + ["average-to", "linear"])


def test_conv_bias_and_two_batch_norms_are_one_scale_and_shift():
    network = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.BatchNorm2d(6), nn.ReLU())
    (operator,) = check(network, 3, 6, 6).operators
    assert steps(operator) == ["scale", "shift", "relu"]


@pytest.mark.parametrize("gamma", [-2.0, 0.0, 0.5])
def test_scales_of_any_sign(gamma):
    block = make_dyadic(BasicBlock(4, act="relu", follows_relu=False).double())
    block.norm.weight.data.fill_(gamma)
    found, expected, file = outputs(block, torch.randint(-3, 4, (2, 4, 6, 6)).double())
    assert torch.equal(found, expected)
    assert (file.operators[0].scale.sign() == torch.tensor(gamma).sign()).all()


def test_folding_rounds_once():
    network = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.BatchNorm2d(1))
    (operator,) = export_and_read(randomise(network), torch.zeros(1, 1, 2, 2)).operators
    first, second = (
        layer.weight.double() / (layer.running_var.double() + layer.eps).sqrt() for layer in (network[1], network[2])
    )
    assert operator.scale.float().item() == (first * second).float().item()


class Several(nn.Module):
    """Values that more than one operator reads: these have to exist."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.act = FPReLU(6)

    def forward(self, x):
        raw = self.conv(x)
        normed = self.norm(raw)
        return self.act(normed + raw) + normed


def test_what_several_read_is_not_fused_away():
    file = check(Several(), 3, 5, 5)
    assert file.kinds == ["conv", "pointwise", "pointwise", "pointwise"]
    assert [steps(operator) for operator in file.operators] == [
        ["shift"],
        ["scale", "shift"],
        ["shortcut", "fprelu"],
        ["shortcut"],
    ]


class Double(nn.Module):
    def forward(self, x):
        y = F.relu(x)
        return y + y


def test_a_value_added_to_itself():
    file = check(Double(), 2, 3, 3)
    assert [steps(operator) for operator in file.operators] == [["relu"], ["shortcut"]]


class Twice(nn.Module):
    """One layer in two places, with other neighbours."""

    def __init__(self):
        super().__init__()
        self.block = BasicBlock(4, act="fprelu", follows_relu=False)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(self.block.conv(self.block(self.block(x))))


def test_shared_layers_are_folded_where_they_stand():
    file = check(Twice(), 4, 6, 6)
    assert file.kinds == ["bconv"] * 3
    assert file.operators[0].weights[0].equal(file.operators[2].weights[0])
    assert [steps(operator)[-1] for operator in file.operators] == ["fprelu", "fprelu", "shift"]


class Dead(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)

    def forward(self, x):
        self.unused(x)
        return self.used(x)


def test_what_nothing_reads_is_left_out():
    assert [operator.path for operator in check(Dead(), 3, 4, 4).operators] == ["used"]


def test_batch_norm_and_activation_without_a_convolution_stand_alone():
    file = check(nn.Sequential(nn.MaxPool2d(2), nn.BatchNorm2d(3), nn.PReLU(), nn.Dropout(), nn.Identity()), 3, 6, 6)
    assert file.kinds == ["max-pool", "pointwise"]
    assert steps(file.operators[1]) == ["scale", "shift", "prelu"]
    assert file.operators[1].left.unique().numel() == 1


@pytest.mark.parametrize("act", [nn.ReLU(), nn.PReLU(4), nn.LeakyReLU(0.2)])
def test_a_batch_norm_behind_straight_pieces_makes_them_steeper(act):
    network = nn.Sequential(Sign(), BConv(3, 4), act, nn.BatchNorm2d(4))
    assert check(network, 3, 5, 5).kinds == ["bconv"]


def test_an_activation_between_keeps_a_batch_norm_out():
    network = nn.Sequential(Sign(), BConv(3, 4), nn.Hardtanh(), nn.BatchNorm2d(4))
    assert check(network, 3, 5, 5).kinds == ["bconv", "pointwise"]


@pytest.mark.parametrize("groups", [1, 3])
def test_a_batch_norm_in_front_of_a_sign_is_its_threshold(groups):
    """Scales of both signs and 0: thresholds, turned weights, and codes that never change."""
    network = nn.Sequential(nn.BatchNorm2d(8), Sign(), BConv(8, 7, groups=groups))
    assert check(network, 8, 5, 5).kinds == ["bconv"]
    network = nn.Sequential(nn.BatchNorm2d(8), Sign(zero_one=True), BConv(8, 7, groups=groups))
    assert check(network, 8, 5, 5).kinds == ["pointwise", "bconv"]  # {0, 1} cannot be turned


class Sum(nn.Module):
    """BatchNorm of a sum of binary convolutions, beside a shortcut."""

    def __init__(self, terms):
        super().__init__()
        self.convs = nn.ModuleList(BConv(4, 4, input=Sign()) for _ in range(terms))
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        total = sum(0.5 * (k + 1) * conv(x) for k, conv in enumerate(self.convs))
        return F.relu(self.norm(total) + x)


@pytest.mark.parametrize("terms", [2, 3, 5])
def test_each_part_of_a_sum_takes_its_part_of_what_follows(terms):
    file = check(Sum(terms), 4, 5, 5)
    assert file.kinds == ["bconv"] * terms
    assert [operator.act for operator in file.operators] == ["none"] * (terms - 1) + ["relu"]


class Deep(nn.Module):
    def forward(self, x):
        total = x
        for _ in range(1500):
            total = F.relu(total) + x
        return total


def test_depth_is_no_limit():
    file = export_and_read(Deep(), torch.zeros(1, 1, 1, 1))
    assert len(file.operators) == 1500


def test_linear_layers_take_batch_norm_and_activation():
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2, bias=False))
    file = check(network, 3, 2, 2)
    assert file.kinds == ["flatten", "linear", "linear"]
    assert [steps(operator) for operator in file.operators[1:]] == [["scale", "shift", "relu"], []]
