import pytest
import torch
from torch import nn

from ftbnn.models import build
from ftbnn.nn import BConv
from ftbnn.training import Recipe
from ftbnn.training.optim import learning_rate, optimizer


def test_only_real_convolutions_and_the_classifier_decay():
    network = build("ftbnn-d18-g3-v5", classes=4)
    decayed, free = (group["params"] for group in optimizer(network, Recipe("x")).param_groups)
    expected = {
        id(p) for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear) for p in m.parameters(recurse=False)
    }
    assert {id(p) for p in decayed} == expected
    assert len(decayed) + len(free) == len(list(network.parameters()))
    binary = {id(p) for m in network.modules() if isinstance(m, BConv) for p in m.parameters()}
    assert binary <= {id(p) for p in free}


def test_a_network_without_real_layers_still_has_an_optimizer():
    assert len(optimizer(BConv(2, 2), Recipe("x")).param_groups) == 1


@pytest.mark.parametrize(("epoch", "rate"), [(0, 0.01), (44, 0.01), (45, 0.001), (54, 0.001), (55, 1e-4), (59, 1e-4)])
def test_multi_step_schedule(epoch, rate):
    assert learning_rate(Recipe("x"), 10 * epoch + 9, 10) == pytest.approx(rate)


def test_cosine_goes_to_zero():
    recipe = Recipe("x", schedule="cosine", epochs=10)
    rates = [learning_rate(recipe, step, 5) for step in range(50)]
    assert rates[0] == 0.01
    assert rates == sorted(rates, reverse=True)
    assert rates[25] == pytest.approx(0.005)
    assert 0 < rates[-1] < 2e-5


def test_warm_up_rises_to_the_rate():
    recipe = Recipe("x", schedule="constant", warmup_epochs=2)
    rates = [learning_rate(recipe, step, 5) for step in range(12)]
    assert torch.tensor(rates).diff().ge(0).all()
    assert rates[10:] == [0.01, 0.01]
    assert 0 < rates[0] < 0.002
