"""Run by torchrun: the running statistics of one process stop being numbers; each process notes how it ended."""

import os
import sys
from pathlib import Path

import torch
from torch import nn

from ftbnn.training import Options, Recipe, fit
from ftbnn.training.diagnose import Diverged
from ftbnn.training.distributed import leave

out, rank = Path(sys.argv[1]), int(os.environ["RANK"])


class Sick(nn.BatchNorm2d):
    steps = 0

    def forward(self, x):
        self.steps += self.training
        result = super().forward(x)
        if rank == 1 and self.steps == 2:
            self.running_mean.data.fill_(float("nan"))
        return result


torch.set_num_threads(1)
torch.manual_seed(0)
items = [(torch.randn(1, 8, 8) + k % 2, k % 2) for k in range(32)]
network = nn.Sequential(nn.Conv2d(1, 4, 3), Sick(4), nn.Flatten(), nn.Linear(144, 2))
try:
    fit(network, items, Recipe(epochs=2, batch_size=8), out / "run", Options(quiet=True, save_every=1))
except Diverged as error:
    (out / f"end{rank}").write_text(error.what)
(out / f"seed{rank}").write_text(str(torch.initial_seed()))
leave(0)
