"""BatchNorm statistics of the weights as they are: running ones trail behind by some hundred steps."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ftbnn.training.distributed import ALONE, World


def settle(network: nn.Module, batches: Iterable[Tensor], world: World = ALONE) -> None:
    """Every BatchNorm in training mode takes its statistics anew, as the mean over these batches of images, of all
    processes'."""
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm) and module.training]
    momenta, in_training = [norm.momentum for norm in norms], [m for m in network.modules() if m.training]
    network.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean of all batches
        norm.train()
    try:
        with torch.no_grad():
            for images in batches:
                network(images)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module in in_training:
            module.training = True
    for statistics in (buffer for norm in norms for buffer in (norm.running_mean, norm.running_var)):
        if statistics is not None:
            world.average(statistics)
