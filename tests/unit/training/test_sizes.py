"""Small images first."""

import pytest
import torch
from torch import nn

from ftbnn.errors import UserError
from ftbnn.training import Options, Recipe, fit
from ftbnn.training.sizes import resized, side_at

RECIPE = Recipe("r", epochs=9, first_size=0.5)


def test_sides_grow_to_the_whole_and_stay():
    sides = [side_at(RECIPE, epoch, 32) for epoch in range(9)]
    assert sides[0] == 16
    assert sides == sorted(sides)
    assert all(side % 4 == 0 for side in sides)
    assert sides[6:] == [32, 32, 32]
    assert all(side_at(Recipe("r", epochs=9), epoch, 32) == 32 for epoch in range(9))


def test_images_keep_their_layout_their_mean_and_their_proportions():
    images = torch.rand(2, 3, 32, 64).contiguous(memory_format=torch.channels_last)
    small = resized(images, RECIPE, 0)
    assert small.shape == (2, 3, 16, 32)
    assert small.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(small.mean(), images.mean(), atol=1e-2, rtol=0)
    assert resized(images, RECIPE, 8) is images


def test_the_network_sees_them(tmp_path):
    seen = []

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(1, 2)

        def forward(self, x):
            seen.append(x.shape[-1])
            return self.fc(x.mean((2, 3)))

    items = [(torch.randn(1, 16, 16), k % 2) for k in range(8)]
    recipe = Recipe("r", epochs=3, batch_size=8, first_size=0.5)
    fit(Pooled(), items, recipe, tmp_path / "run", options=Options(quiet=True))
    assert seen[0] == 8  # the trial
    assert sorted(set(seen)) == [8, 12, 16]


def test_a_network_of_one_size_is_told(tmp_path):
    items = [(torch.randn(1, 16, 16), k % 2) for k in range(8)]
    network = nn.Sequential(nn.Flatten(), nn.Linear(256, 2))
    with pytest.raises(UserError, match=r"first_size=0.5 begins with 8 x 8 pixels, which this network does not take"):
        fit(network, items, Recipe("r", epochs=2, batch_size=8, first_size=0.5), tmp_path / "run")
