"""A method: how a network of a given shape becomes binary, as one literal row."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ftbnn.errors import unknown
from ftbnn.nn.fprelu import FPReLU
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs

Act = str | Callable[[int], nn.Module]  # a name of ACTS, or what makes the module for so many channels

ACTS: dict[str, Callable[[int], nn.Module]] = {
    "fprelu": FPReLU,
    "prelu": nn.PReLU,
    "relu": lambda _: nn.ReLU(),
    "hardtanh": lambda _: nn.Hardtanh(),
    "none": lambda _: nn.Identity(),
}


def activation(act: Act, channels: int) -> nn.Module:
    """The non-linear module that ends a block."""
    if isinstance(act, str):
        if act not in ACTS:
            raise unknown("non-linearity", act, ACTS)
        act = ACTS[act]
    return act(channels)


def plain_input(channels: int, follows_relu: bool) -> Sign:  # noqa: ARG001
    return Sign(zero_one=follows_relu)


@dataclass(frozen=True)
class Method:
    """What a method brings: both sides of its binary convolutions, and the non-linearities around them."""

    about: str
    input: Callable[[int, bool], Sign] = plain_input  # of so many channels, which may follow a ReLU
    signs: Callable[[], Signs] = Signs
    act: Act = "none"
    stage_end_act: Act = "none"
    stem_act: Act = "none"
