"""Starting from the weights of another run: all of them, but for a classifier of another shape."""

from typing import Any

from torch import nn

from ftbnn.errors import UserError
from ftbnn.training.run import misfit


def start_from(network: nn.Module, state: dict[str, Any]) -> list[str]:
    """Gives `network` the weights of a checkpoint (`run.load_state`); returns the names of those that it keeps."""
    given, own = state["model"], network.state_dict()
    classifier = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)][-1:]
    keeps = [name for name in own if name.rpartition(".")[0] in classifier]
    if why := misfit(network, given, keeps):
        raise UserError(f"{state['path']} is of another network: {why}")
    fresh = [name for name in keeps if own[name].shape != given[name].shape]
    network.load_state_dict({name: given[name] for name in own if name not in fresh}, strict=False)
    return fresh
