import pytest
import torch

from ftbnn.experiments.figure2 import separation


def test_separation_is_the_scatter_between_classes_over_that_within():
    features = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
    assert separation(features, torch.tensor([3, 3, 7, 7])) == pytest.approx(25.0)  # means 1 and 11, all 1 away
    assert separation(5 * features, torch.tensor([3, 3, 7, 7])) == pytest.approx(25.0), "whatever the scale"
