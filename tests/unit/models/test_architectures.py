"""Networks that come with a method: what they cost, what they are made of, and that small ones learn."""

import pytest
import torch
from torch import nn

from ftbnn import data
from ftbnn.budget import convention
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.models.binary_mobilenet import GROUPS, BinaryMobileNet
from ftbnn.models.bnext import BNext, CooledSigns, MixedGate, Processor
from ftbnn.models.meliusnet import Improvement, MeliusNet
from ftbnn.models.mobile import MobileBlock, Place
from ftbnn.models.reactnet_a import ReActNetA
from ftbnn.nn import BConv, after_step, set_progress
from ftbnn.workflows.networks import count_named


@pytest.mark.parametrize(
    ("name", "flops_m", "bops_m"),
    [
        ("reactnet-a", 11.863, 4816.896),  # printed: 12, 4820; 87 together
        ("meliusnet22", 136.390, 4624.220),  # 135, 4620; 208
        ("meliusnet29", 129.493, 5469.585),  # 129, 5470; 214
        ("bnext-t", 13.358, 4816.896),  # 77 * 64 = 4928 binary ones, in the authors' README
        ("binary-mobilenet", 11.863, 1248.379),  # our list of groups: nothing to compare with
    ],
)
def test_costs_as_papers_count_them(name, flops_m, bops_m):
    """Without BatchNorms and non-linearities. Each is the sum that the sizes of its convolutions give."""
    budget = count_named(name, rule=convention("conv-only"))
    assert (budget.flops / 1e6, budget.bops / 1e6) == (
        pytest.approx(flops_m, abs=5e-4),
        pytest.approx(bops_m, abs=5e-4),
    )
    assert budget.uncounted == ()
    assert count_named(name).uncounted == ()


def test_a_convolution_to_twice_the_channels_is_the_authors_two():
    """Two 1x1 convolutions on the same signs, each normalised and added to the input, one behind the other."""
    torch.manual_seed(0)
    block = MobileBlock(Place(0, 6, True, 1, True), method="reactnet").eval()
    x = torch.randn(2, 6, 5, 5)
    with torch.no_grad():
        for norm in (block.spatial.norm, block.point.norm):
            norm.running_mean.normal_()
            norm.weight.normal_()
        middle = block.spatial(x, x)
        found, signs = block.point(middle, torch.cat([middle, middle], 1)), block.point.conv.input(middle)
        weight, norm = block.point.conv.signs(block.point.conv.weight), block.point.norm
        halves = []
        for part in (slice(0, 6), slice(6, 12)):
            sums = nn.functional.conv2d(signs, weight[part])
            numbers = (norm.running_mean[part], norm.running_var[part], norm.weight[part], norm.bias[part])
            halves.append(nn.functional.batch_norm(sums, *numbers) + middle)
        torch.testing.assert_close(found, block.point.act(torch.cat(halves, 1)))
        torch.testing.assert_close(found, block(x))


def test_an_improvement_leaves_all_but_the_last_channels_as_they_are():
    torch.manual_seed(0)
    block, x = Improvement(10, 4), torch.randn(2, 10, 5, 5)
    found = block(x)
    assert torch.equal(found[:, :6], x[:, :6])
    torch.testing.assert_close(found[:, 6:] - x[:, 6:], block.grow(x))


def test_a_mixture_has_the_mean_of_its_parts_mixture():
    torch.manual_seed(0)
    gate, x, out = MixedGate(16), torch.randn(2, 16, 6, 6), torch.randn(2, 16, 6, 6)
    nn.init.uniform_(gate.share)
    share = gate.share.view(-1, 1, 1)
    mixed = (share * x + (1 - share) * out).mean((2, 3))
    factor = torch.sigmoid(gate.excite(torch.relu(gate.squeeze(mixed))))
    torch.testing.assert_close(gate(out, x), out * factor[:, :, None, None])
    nn.init.constant_(gate.share, 1.5)
    gate.after_step()
    assert gate.share.max() == 1


def test_weights_of_bnext_cool_down_to_signs():
    signs, weight = CooledSigns(), torch.tensor([-2e-3, 1e-3, 0.5]).view(3, 1, 1, 1).requires_grad_()
    assert torch.equal(signs(weight), weight)
    found = {}
    for share in (0.1, 0.31, 1.0):
        set_progress(signs, share)
        found[share] = signs(weight).detach().flatten().tolist()
    assert -1 < found[0.1][0] < -2e-3
    assert found[0.31] == found[1.0] == [-1, 1, 1]
    set_progress(signs, 0.0)
    assert signs.eval()(weight).flatten().tolist() == [-1, 1, 1]  # what is deployed
    signs.train()(weight).sum().backward()
    assert weight.grad.flatten().tolist() == [1, 1, 1]


def test_every_second_processor_of_bnext_attends():
    processors = [m for m in BNext(width=8).modules() if isinstance(m, Processor) and m.conv.kernel_size == (3, 3)]
    assert [m.shortcut_act is not None for m in processors] == [n % 2 == 1 for n in range(13)]


def test_groups_are_a_literal_list():
    groups = ((1, 1), (2, 1), (4, 2))
    network = BinaryMobileNet(groups=groups, blocks=(1, 1, 1), width=4)
    convolutions = [m.groups for m in network.modules() if isinstance(m, BConv)]
    assert convolutions == [count for pair in groups for count in pair]
    assert len(GROUPS) == 13
    with pytest.raises(UserError, match="3 blocks need as many pairs of groups, not 13"):
        BinaryMobileNet(blocks=(1, 1, 1))
    with pytest.raises(UserError, match="groups=9 does not fit"):
        BinaryMobileNet(groups=((9, 1),), blocks=(1,), width=8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build("meliusnet22", width=5), "even width"),
        (lambda: MeliusNet(pairs=(1, 1)), "four numbers of pairs"),
        (lambda: build("reactnet-a", width=0), "width=0"),
        (lambda: build("meliusnet29", method="irnet"), "meliusnet29 is not made binary by a method of choice"),
        (lambda: build("bnext-t", method="irnet"), "bnext-t is not made binary by a method of choice"),
    ],
)
def test_mistakes_say_what_to_do(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


SMALL = {
    "reactnet-a": lambda **s: ReActNetA(width=16, blocks=(1, 1, 1), **s),
    "binary-mobilenet": lambda **s: BinaryMobileNet(width=16, blocks=(1, 1, 1), groups=((1, 1), (2, 1), (4, 2)), **s),
    "meliusnet": lambda **s: MeliusNet(width=16, pairs=(1, 1, 1, 1), **s),
    "bnext": lambda **s: BNext(width=16, blocks=(1, 1, 1), **s),
}


@pytest.mark.parametrize("name", SMALL)
def test_narrow_and_shallow_ones_learn_digits(name):
    torch.manual_seed(0)
    source = data.load("digits")
    (images, labels), (test, answers) = (
        ((split.images.float() / 255 - 0.3) / 0.4, split.labels) for split in (source.train, source.test)
    )
    network, steps = SMALL[name](classes=10, in_channels=1, stem="small"), 120
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        set_progress(network, step / steps)
        chosen = torch.randint(len(images), (100,))
        loss = nn.functional.cross_entropy(network(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after_step(network)
        schedule.step()
    with torch.no_grad():
        top1 = (network.eval()(test).argmax(1) == answers).float().mean()
    assert top1 > 0.9
