"""Bop: flips instead of steps, Adam for the rest, and methods that it does not go with."""

import pytest
import torch
from torch import nn

from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import BConv, Sign
from ftbnn.training import Recipe
from ftbnn.training.optim import learning_rate, optimizer


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), BConv(4, 4, input=Sign()), nn.BatchNorm2d(4))


def test_a_weight_turns_when_the_mean_of_its_gradient_asks_for_it():
    net = network()
    recipe = Recipe(optimizer="bop", bop_rate=0.5, bop_threshold=0.1, lr=0.01)
    bop = optimizer(net, recipe)
    weight = net[1].weight
    assert weight.detach().abs().eq(1).all()
    before = weight.detach().clone()
    grads = [torch.randn_like(weight), torch.randn_like(weight)]
    mean, expected = torch.zeros_like(weight), before.clone()
    for grad in grads:
        for parameter in net.parameters():
            parameter.grad = torch.zeros_like(parameter)
        weight.grad = grad
        bop.step()
        mean = 0.5 * mean + 0.5 * grad
        expected = torch.where(mean * expected > 0.1, -expected, expected)
        assert torch.equal(weight.detach(), expected)
    assert (expected != before).any()


def test_the_real_numbers_are_adams():
    nets = network(), network()
    adam = torch.optim.Adam([p for p in nets[1].parameters() if p is not nets[1][1].weight], lr=0.01)
    bop = optimizer(nets[0], Recipe(optimizer="bop", weight_decay=0.0))
    for net, own in ((nets[0], bop), (nets[1], adam)):
        for parameter in net.parameters():
            parameter.grad = torch.full_like(parameter, 0.3)
        own.step()
    for (path, ours), theirs in zip(nets[0].named_parameters(), nets[1].parameters(), strict=True):
        if not path.startswith("1."):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("method", ["irnet", "bireal", "abc", "adabin", "siman"])
def test_methods_with_real_valued_weights_are_refused_in_one_line(method):
    net = build("ftbnn18", width=4, classes=3, stem="small", method=method)
    with pytest.raises(UserError, match="bop flips plain signs"):
        optimizer(net, Recipe(optimizer="bop"))
    with pytest.raises(UserError, match="the network has none"):
        optimizer(nn.Linear(2, 2), Recipe(optimizer="bop"))


def test_schedules_go_from_end_to_end():
    for schedule, last in (("linear", 0.01), ("exponential", 0.1 ** (99 / 100)), ("cosine", 0.00025)):
        recipe = Recipe(epochs=10, lr=1.0, schedule=schedule)
        rates = [learning_rate(recipe, step, 10) for step in range(100)]
        assert rates[0] == 1.0
        assert rates[-1] == pytest.approx(last, abs=1e-4)
        assert rates == sorted(rates, reverse=True)


def test_settings_of_another_optimizer_are_refused():
    with pytest.raises(UserError, match="optimizer=adam has no momentum; optimizer=sgd has"):
        Recipe().changed({"momentum": "0.5"})
    with pytest.raises(UserError, match="schedule=linear has no decay"):
        Recipe().changed({"schedule": "linear", "decay": "0.5"})
    assert Recipe().changed({"optimizer": "sgd", "momentum": "0.5"}).momentum == 0.5
    assert type(optimizer(network(), Recipe(optimizer="sgd"))) is torch.optim.SGD
    assert type(optimizer(network(), Recipe(optimizer="adamw"))) is torch.optim.AdamW
