"""Run by torchrun: trains on a data set that notes what it was asked for, then leaves each process's weights."""

import os
import signal
import sys
from pathlib import Path

import torch

from ftbnn.models import build
from ftbnn.training import Options, Recipe, fit
from ftbnn.training.distributed import leave

out, die_at = Path(sys.argv[1]), int(sys.argv[2])
rank = int(os.environ["RANK"])


class Noted:
    """61 images; process 1 kills itself once, when it has served `die_at` of them."""

    served = 0

    def __len__(self):
        return 61

    def __getitem__(self, index):
        Noted.served += 1
        marker = out / "died"
        if rank == 1 and Noted.served == die_at and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with (out / f"seen{rank}.{os.environ['TORCHELASTIC_RESTART_COUNT']}").open("a") as file:
            file.write(f"{index}\n")
        return torch.randn(1, 8, 8) + index % 2, index % 2


torch.set_num_threads(1)
torch.manual_seed(0)
recipe = Recipe("ddp", epochs=2, batch_size=8, lr=1e-3, accumulate=2)
network = build("ftbnn18", width=4, classes=2, in_channels=1, stem="small")
val = [(torch.randn(1, 8, 8) + k % 2, k % 2) for k in range(7)]
fit(network, (Noted(), val, val), recipe, out / "run", Options(quiet=True, save_every=3))
torch.save(network.state_dict(), out / f"weights{rank}.pt")
fit(network, (val, val), recipe, out / "second", Options(quiet=True))  # the same processes meet again
leave(0)
