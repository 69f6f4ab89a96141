"""Run by torchrun: trains the same network twice, once with each backend, and leaves its parameters.

With SGD, in whose steps a rounding error stays as small as it is. Adam divides a gradient by its own size: that of a
weight whose inputs all have the same sign is nothing but rounding, behind BatchNorm, and would move it a whole step.
"""

import os
import sys
from pathlib import Path

import torch
from torch import nn

from ftbnn.nn import BasicBlock
from ftbnn.training import Options, Recipe, fit
from ftbnn.training.distributed import leave

out = Path(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(0)
items = [(torch.randn(1, 8, 8) + k % 2, k % 2) for k in range(96)]
for backend in ("native", "torch"):
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Conv2d(1, 12, 3),
        BasicBlock(12, act="fprelu", follows_relu=False),
        BasicBlock(12, act="relu", groups=3, follows_relu=False),
        BasicBlock(12, act="prelu", follows_relu=True),
        nn.Flatten(),
        nn.Linear(432, 2),
    )
    for block in network[1:4]:
        nn.init.normal_(block.norm.bias)  # with 0, behind a ReLU, sums that equal their mean are ties of the slopes
    start = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    recipe = Recipe("ddp", epochs=1, batch_size=32, accumulate=2, validation=0.0, backend=backend)
    sgd = Options(quiet=True, optimizer=lambda network: torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9))
    fit(network, (items, items[:8]), recipe, out / backend, sgd)
    torch.save((start, dict(network.named_parameters())), out / f"{backend}{os.environ['RANK']}.pt")
leave(0)
