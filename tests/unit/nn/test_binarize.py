"""A user's own network of plain convolutions, made binary in place."""

import pytest
import torch
from torch import nn

import ftbnn
from ftbnn.errors import UserError
from ftbnn.nn import METHODS, BConv, binarize


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.body = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.Conv2d(8, 16, 1, 2), nn.BatchNorm2d(16)
        )
        self.odd = nn.Conv2d(16, 16, 3)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        return self.fc(self.odd(self.body(self.stem(x))).mean((2, 3)))


@pytest.mark.parametrize("method", METHODS)
def test_a_network_of_ones_own_trains_and_says_what_became_of_it(method):
    network = Own()
    weight = network.body[0].weight.detach().clone()
    if METHODS[method].has_size:
        with pytest.raises(UserError, match="images of one size"):
            binarize(network, method)
        return
    told = binarize(network, method)
    assert told.replaced == ("body.0", "body.2")
    assert told.left == {
        "stem.0": "it is to be kept",
        "odd": "its padding is (0, 0) (zeros), not half its kernel in zeros",
    }
    assert "binary now: 2 convolutions, body.0, body.2\n  left stem.0" in str(told)
    made = network.body[0]
    if isinstance(made, BConv) and made.weight.shape == weight.shape:
        assert torch.equal(made.weight.detach(), weight)
    network(torch.randn(4, 3, 10, 10)).sum().backward()


def test_it_can_be_exported(tmp_path):
    network = Own()
    binarize(network, "irnet")
    network(torch.randn(8, 3, 10, 10))
    settings = {"mean": (0, 0, 0), "std": (1, 1, 1), "image_size": (3, 10, 10)}
    ftbnn.export(network.eval(), tmp_path / "own.ftbnn", **settings)


@pytest.mark.parametrize("keep", ["body.2", ("stem", "fc", "body.2")])
def test_what_is_kept_stays(keep):
    assert binarize(Own(), keep=keep).left["body.2"] == "it is to be kept"


def test_what_is_kept_by_habit_may_be_absent():
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1))
    assert binarize(network).replaced == ("1",)


def test_mistakes_are_one_line():
    for keep in ("bdoy", ("stem", "bdoy")):
        with pytest.raises(UserError, match="unknown part to keep 'bdoy'; did you mean body"):
            binarize(Own(), keep=keep)
    with pytest.raises(UserError, match=r"binarize takes a torch.nn.Module, not a str; ftbnn.build makes one"):
        binarize("net")
    with pytest.raises(UserError, match="there is no convolution"):
        binarize(nn.Linear(3, 3))
    with pytest.raises(UserError, match="no convolution was made binary: 0: it reads the image"):
        binarize(nn.Sequential(nn.Conv2d(3, 3, 3)))
    with pytest.raises(UserError, match="unknown method"):
        binarize(Own(), "irnett")
