"""Trains with DataLoaders, patience, an optimizer and a scheduler of its own; goes on with what is there, and kills
itself when so many images have been asked for."""

import os
import signal
import sys
from pathlib import Path

import torch
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader

import ftbnn

out, die_at = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else -1


class Noisy:
    """Random views of 40 images."""

    served = 0

    def __len__(self):
        return 40

    def __getitem__(self, index):
        Noisy.served += 1
        if Noisy.served == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.3 * torch.randn(1, 8, 8) + index % 2, index % 2


torch.set_num_threads(1)
torch.manual_seed(0)
network = ftbnn.build("ftbnn18", width=4, classes=2, in_channels=1, stem="small")
held = [(torch.randn(1, 8, 8) + k % 2, k % 2) for k in range(12)]
data = (
    DataLoader(Noisy(), batch_size=8, shuffle=True),
    DataLoader(held[:6], batch_size=6),
    DataLoader(held, batch_size=6),
)
options = ftbnn.Options(
    quiet=True,
    save_every=1,
    resume=(out / "recipe.json").exists(),
    optimizer=lambda net: torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9),
    scheduler=lambda optimizer: StepLR(optimizer, 1, gamma=0.8),
)
ftbnn.fit(network, data, ftbnn.Recipe(epochs=6, patience=3), out, options)
