import tracemalloc
import warnings

import pytest
import torch
import torch.nn.functional as F
from export_networks import Forward
from torch import nn

from ftbnn.budget import CONVENTIONS, PAPER, ImageTooSmall, UncountedWarning, count, summary
from ftbnn.budget.report import layer_rows, plot, stage_rows, totals
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import BConv, FPReLU, Sign, set_mode
from ftbnn.nn.methods.reactnet import RSign


def sequence(*layers):
    return nn.Sequential(*layers)


def row(budget, path):
    return next(r for r in budget.layers if r.path == path)


def test_plain_layers():
    net = sequence(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 5))
    budget = count(net, (3, 8, 8))
    conv, elements, fc = 27 * 8 * 16, 8 * 16, 128 * 5 + 5
    assert budget.flops == conv + 2 * elements + fc
    assert budget.bops == 0
    assert budget.params == 27 * 8 + 16 + fc
    assert budget.under(CONVENTIONS["conv-only"]).flops == conv + fc
    assert budget.fp32_bytes == 4 * (27 * 8 + 16 + 16 + fc)  # BatchNorm's running statistics are in the fp32 state


def test_binary_convolution_and_its_doubling():
    for zero_one, factor in ((False, 1), (True, 2)):
        budget = count(sequence(Sign(zero_one=zero_one), BConv(4, 6, groups=2)), (4, 5, 5))
        macs = 25 * 9 * 2 * 6
        assert budget.bops == factor * macs
        assert budget.flops == 0
        assert budget.params == 9 * 2 * 6 / 32
        assert budget.packed_bytes == -(-9 * 2 * 6 // 8)
        layer = layer_rows(budget)[0]
        assert (layer["weights"], layer["input"], layer["groups"]) == ("+-1", "0/1" if zero_one else "+-1", 2)
        assert layer["doubled"] is zero_one
        assert budget.under(CONVENTIONS["conv-only"]).bops == macs


def test_binary_weights_on_a_real_input_are_real_work():
    budget = count(BConv(4, 4, kernel_size=1), (4, 3, 3))
    assert (budget.flops, budget.bops) == (4 * 4 * 9, 0)
    assert budget.params == 16 / 32
    assert layer_rows(budget)[0]["input"] == "fp32"


def test_a_sign_of_pytorchs_is_no_code_and_that_is_said():
    with pytest.warns(UncountedWarning, match="conv: binary weights on an input that no Sign made binary"):
        budget = count(Forward(lambda m, x: m.conv(torch.sign(x)), conv=BConv(4, 4, 1)), (4, 3, 3))
    assert (budget.flops, budget.bops) == (4 * 9 + 16 * 9, 0)


class Shifted(Sign):
    """A threshold per channel, inside the sign."""

    def __init__(self, channels):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return super().forward(x + self.bias.view(-1, 1, 1))


class Before(nn.Module):
    """The same before it."""

    def __init__(self, channels):
        super().__init__()
        self.bias, self.sign = nn.Parameter(torch.zeros(channels)), Sign()

    def forward(self, x):
        return self.sign(x + self.bias.view(-1, 1, 1))


def test_a_subclass_of_a_sign_costs_what_it_would_as_a_module():
    inside, apart, answered = (count(sequence(it, BConv(4, 6)), (4, 8, 8)) for it in (Shifted(4), Before(4), RSign(4)))
    for budget in (inside, apart, answered):
        assert (budget.flops, budget.bops) == (0, 64 * 9 * 4 * 6)
        assert budget.params == 4 + 9 * 4 * 6 / 32
        assert budget.uncounted == ()


class Scaled(BConv):
    """A learned real factor per output channel."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1))

    def forward(self, x):
        return super().forward(x) * self.gain


def test_a_subclass_of_a_convolution_has_real_numbers_and_products():
    budget = count(sequence(Sign(), Scaled(4, 6)), (4, 8, 8))
    (layer,) = budget.layers
    assert (layer.binary_params, layer.real_params) == (9 * 4 * 6, 6)
    assert (budget.flops, budget.bops) == (6 * 64, 64 * 9 * 4 * 6)
    assert budget.packed_bytes == 4 * 6 + 9 * 4 * 6 // 8


def test_a_convolution_may_own_its_sign():
    ours = count(BConv(4, 6, groups=3, input=Sign(zero_one=True)), (4, 8, 8))
    apart = count(sequence(Sign(zero_one=True), BConv(4, 6, groups=3)), (4, 8, 8))
    assert (ours.flops, ours.bops, ours.params) == (apart.flops, apart.bops, apart.params)
    assert ours.layers[0].kind == "BConv"


def test_constants_made_in_a_forward_are_no_obstacle():
    network = Forward(
        lambda m, x: m.conv(x) * torch.tensor([1.0, 2.0]).view(2, 1, 1) + torch.tensor(3.0), conv=nn.Conv2d(3, 2, 1)
    )
    budget = count(network, (3, 4, 4))
    assert budget.flops == 16 * (6 + 2) + 2 * 16
    assert budget.uncounted == ()


def test_a_budget_prints_as_one_line():
    text = str(count(build("ftbnn18", width=8, classes=10, stem="small"), (3, 32, 32)))
    assert text.startswith("Budget(FLOPs ")
    assert "input 3x32x32" in text
    assert "\n" not in text
    assert len(text) < 160


def test_a_summary_is_a_table_of_layers():
    network = build("toy-relu")
    text = summary(network)
    assert repr(text) == str(text)  # a prompt shows the table, not its characters
    lines = text.splitlines()
    assert lines[0].split("  ")[0] == "layer"
    assert [line.split()[:2] for line in lines[2:5]] == [
        ["stem.0", "Conv2d"],
        ["stem.1", "BatchNorm2d"],
        ["block1.conv", "BConv"],
    ]
    assert "8090 real and 4608 binary weights, 32.9 kB packed" in lines[-1]
    costs = summary(network, (1, 28, 28))
    budget = count(network, (1, 28, 28))
    assert f"{budget.bops / 1e6:10.3f} M" in costs
    (row,) = (line for line in costs.splitlines() if line.startswith("block1.conv"))
    assert row.split()[1:6] == ["BConv", "+-1", "+-1", "16x14x14", "16x14x14"]


def test_a_summary_counts_shared_weights_once():
    shared = nn.Linear(3, 3, bias=False)
    other = nn.Linear(3, 3, bias=False)
    other.weight = shared.weight
    assert "9 real and 0 binary weights" in summary(sequence(shared, other))


def test_real_mode_is_counted_as_real():
    net = sequence(Sign(), BConv(4, 4, kernel_size=1))
    set_mode(net, activations="tanh", weights="real")
    budget = count(net, (4, 3, 3))
    assert (budget.flops, budget.bops, budget.params) == (36 + 4 * 36, 0, 16)


class Functional(nn.Module):
    """A user's own network, half of it written without modules."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)
        self.weight = nn.Parameter(torch.zeros(10, 8))
        self.sign, self.binary = Sign(), BConv(16, 8, kernel_size=1)

    def forward(self, x):
        x = F.relu(self.conv(x))
        x = torch.cat([x, x], dim=1)
        shuffled = self.sign(x).view(1, 2, 8, *x.shape[2:]).transpose(1, 2).reshape(x.shape)
        x = self.binary(shuffled) * 0.5
        return F.linear(x.mean(dim=(2, 3)), self.weight)


def test_functions_and_arithmetic_are_counted_and_codes_survive_moves():
    budget = count(Functional(), (3, 4, 4))
    assert budget.uncounted == ()
    assert budget.bops == 16 * 16 * 8
    assert budget.flops == 16 * 8 * 3 + 16 * 8 + 16 * 8 + 16 * 8 + 80  # conv, its bias, relu, times 0.5, linear
    assert row(budget, ":mul").elements == 16 * 8


def test_shared_layers_work_twice_and_are_stored_once():
    shared = nn.Conv2d(4, 4, 1, bias=False)
    budget = count(sequence(shared, shared), (4, 2, 2))
    assert budget.flops == 2 * 4 * 16
    assert budget.params == 16
    assert budget.layers[0].calls == 2


def test_an_unknown_operator_is_named_not_zero():
    class Strange(nn.Module):
        def forward(self, x):
            return torch.cumsum(x, dim=1)

    with pytest.warns(UncountedWarning, match="1: no rule for the operator cumsum"):
        budget = count(sequence(nn.ReLU(), Strange()), (3, 4, 4))
    assert budget.uncounted == ("1: no rule for the operator cumsum",)
    assert totals(budget)["uncounted"] == ["1: no rule for the operator cumsum"]


def test_a_parameter_that_is_never_used_is_named():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.ReLU(), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    with pytest.warns(UncountedWarning, match="idle.weight: .* never uses it"):
        budget = count(Idle(), (2,))
    assert budget.params == 6


def test_the_module_is_left_as_it_was():
    net = sequence(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), FPReLU(4)).train()
    net[1].eval()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    count(net, (3, 8, 8))
    assert [m.training for m in net] == [True, False, True]
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert all(p.device.type == "cpu" for p in net.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_counting_takes_no_memory_for_activations():
    net = sequence(nn.Conv2d(3, 512, 3), nn.ReLU())
    tracemalloc.start()
    count(net, (3, 4096, 4096))
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_too_small_an_image_names_the_layer():
    net = sequence(nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1))
    with pytest.raises(ImageTooSmall, match="1 has stride 2 and is left with a map of 1x1"):
        count(net, (3, 2, 2))


def test_an_input_that_does_not_fit_names_the_layer():
    with pytest.raises(UserError, match="1 does not run on an input of 5x8x8") as caught:
        count(sequence(nn.ReLU(), nn.Conv2d(3, 4, 3)), (5, 8, 8))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("asked", [count, summary])
def test_what_is_no_network_or_no_shape_is_one_line(asked):
    with pytest.raises(UserError, match=f"{asked.__name__} takes a torch.nn.Module, not a str; ftbnn.build makes one"):
        asked("ftbnn18", (3, 32, 32))
    for shape in (8, "3x8x8", (3, 8.5, 8)):
        with pytest.raises(UserError, match=r"input_shape is \(channels, height, width\), as \(3, 224, 224\), not "):
            asked(nn.ReLU(), shape)


def test_double_precision_and_transposed_convolutions():
    net = sequence(nn.ConvTranspose2d(2, 3, 2, 2, bias=False)).double()
    budget = count(net, (2, 1, 1))
    assert budget.flops == 2 * 3 * 4
    assert layer_rows(budget)[0]["weights"] == "fp64"


def test_common_networks_have_no_gaps():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = sequence(
                nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.GELU(), nn.Dropout(0.1), nn.MaxPool2d(2)
            )
            self.gate = sequence(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Sigmoid())
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            x = self.body(x)
            x = x * self.gate(x)
            tokens = x.flatten(2).transpose(1, 2)
            return self.attention(tokens, tokens, tokens, need_weights=False)[0].softmax(-1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        budget = count(Mixed(), (3, 8, 8))
    tokens = 16
    attention = tokens * 8 * 32 + 2 * tokens * tokens * 8  # four projections, scores and values
    assert budget.under(CONVENTIONS["conv-only"]).flops >= attention


def test_stage_rows_add_up_to_the_budget():
    budget = count(sequence(sequence(Sign(), BConv(4, 4)), sequence(nn.Conv2d(4, 2, 1))), (4, 4, 4), rule=PAPER)
    rows = stage_rows(budget)
    assert [r["stage"] for r in rows] == ["0", "1"]
    assert sum(r["real_m"] + r["binary_m"] for r in rows) == pytest.approx(budget.budget / 1e6)


def test_plot_writes_a_picture_or_says_why_not(tmp_path):
    budget = count(sequence(Sign(), BConv(4, 4)), (4, 4, 4))
    plot(budget, tmp_path / "out.png", title="tiny")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="cannot write"):
        plot(budget, tmp_path / "no" / "out.png", title="tiny")
    with pytest.raises(UserError, match="cannot write"):
        plot(budget, tmp_path / "out.xyz", title="tiny")
