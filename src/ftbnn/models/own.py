"""A user's own network by name: `FILE.py:FACTORY` or `package.module:FACTORY`.

The factory is a class or function that returns an nn.Module; of our settings it is given those it has a parameter for.
"""

import inspect
from collections.abc import Callable

from torch import nn

from ftbnn.errors import UserError, first_line
from ftbnn.own import find
from ftbnn.zoo import card, name_in


def _factory(name: str) -> Callable[..., object]:
    if (trained := name_in(name)) is not None:
        network = card(trained)["model"]
        raise UserError(
            f"{name} is a trained file, not a network to build: that is {network}. predict, eval and inspect take it, "
            f"train starts from it as init; in Python load, evaluate and build({network!r}, pretrained={trained!r})"
        )
    return find(name, "factory", callable)  # type: ignore[no-any-return]


def parameters_of(name: str) -> tuple[str, ...]:
    """The names of what the factory takes."""
    return tuple(inspect.signature(_factory(name)).parameters)


def load_own(name: str, **settings: object) -> nn.Module:
    """Imports the file or module and calls the factory. None among the settings means: leave it to the factory."""
    factory = _factory(name)
    parameters = inspect.signature(factory).parameters
    given = {key: value for key, value in settings.items() if value is not None}
    for key in given:
        if key not in parameters:
            raise UserError(f"{name} has no parameter {key!r}; it takes {', '.join(parameters) or 'none'}")
    try:
        network = factory(**given)
    except Exception as error:
        raise UserError(f"{name} could not be built: {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(network, nn.Module):
        raise UserError(f"{name} returned {type(network).__name__}, not an nn.Module")
    return network
