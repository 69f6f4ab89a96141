"""Run by torchrun: a BatchNorm that sees the images themselves takes its statistics anew, of all of them."""

import os
import sys
from pathlib import Path

import torch
from torch import nn

from ftbnn.training import Options, Recipe, fit
from ftbnn.training.distributed import leave

out, rank = Path(sys.argv[1]), int(os.environ["RANK"])
torch.set_num_threads(1)
torch.manual_seed(0)
items = [(torch.randn(1, 8, 8) + k, k % 2) for k in range(32)]
network = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(64, 2))
recipe = Recipe(epochs=1, batch_size=8, validation=0.0, norm_images=32)
fit(network, items, recipe, out / "run", Options(quiet=True))
means = network[0].running_mean, torch.stack([image for image, _ in items]).mean((0, 2, 3))
torch.save(means, out / f"means{rank}.pt")
leave(0)
