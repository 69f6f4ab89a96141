"""Starting from the weights of another run: all of them, but for a classifier of another shape."""

from typing import Any

from torch import nn

from ftbnn.errors import UserError


def start_from(network: nn.Module, state: dict[str, Any]) -> list[str]:
    """Gives `network` the weights of a checkpoint (`run.load_state`); returns the names of those that it keeps."""
    given, own, path = state["model"], network.state_dict(), state["path"]
    if set(given) != set(own):
        name = min(set(given) ^ set(own))
        raise UserError(f"{path} is of another network: {name} is only in {'it' if name in given else 'this one'}")
    fresh = [name for name in own if own[name].shape != given[name].shape]
    classifier = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)][-1:]
    for name in fresh:
        if name.rpartition(".")[0] not in classifier:
            there, here = list(given[name].shape), list(own[name].shape)
            raise UserError(f"{path} is of another network: its {name} is {there}, here it is {here}")
    network.load_state_dict({name: given[name] for name in own if name not in fresh}, strict=False)
    return fresh
