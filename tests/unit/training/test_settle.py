"""BatchNorm statistics taken anew."""

import torch
from torch import nn

from ftbnn.training import Options, Recipe, fit
from ftbnn.training.settle import settle


def test_statistics_are_those_of_the_batches():
    torch.manual_seed(0)
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.5), nn.BatchNorm2d(3)).train()
    network[2].eval()  # of a frozen part
    before = network[2].running_mean.clone()
    batches = [torch.randn(8, 3, 4, 4) * 2 + 5 for _ in range(4)]
    settle(network, batches)
    means = torch.stack([batch.mean((0, 2, 3)) for batch in batches]).mean(0)
    variances = torch.stack([batch.transpose(0, 1).flatten(1).var(1) for batch in batches]).mean(0)
    torch.testing.assert_close(network[0].running_mean, means)
    torch.testing.assert_close(network[0].running_var, variances)
    assert torch.equal(network[2].running_mean, before)
    assert [module.training for module in network] == [True, True, False]
    assert network[0].momentum == 0.1


def test_a_run_settles_after_its_last_epoch(tmp_path):
    items = [(torch.randn(1, 8, 8) + k % 2, k % 2) for k in range(32)]
    found = {}
    for images in (0, 16):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
        recipe = Recipe("r", epochs=2, batch_size=8, validation=0.0, norm_images=images)
        fit(network, items, recipe, tmp_path / str(images), options=Options(quiet=True))
        found[images] = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert torch.equal(found[0]["0.weight"], found[16]["0.weight"])
    assert not torch.equal(found[0]["1.running_mean"], found[16]["1.running_mean"])
    assert int(found[16]["1.num_batches_tracked"]) == 2
