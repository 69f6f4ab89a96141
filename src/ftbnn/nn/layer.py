"""The protocol of layers: questions that whoever counts, exports, trains or records asks of each layer.

A layer of one's own derives from `Layer` and answers those that concern it; nobody asks which class it is.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ftbnn.errors import UserError, wrong_kind


@dataclass
class Packed:
    """What a file has of the operator that a layer became, or became part of; None for what is not there.

    `scale` and `shift` are of the whole operator: a layer that multiplies by itself takes its own part out.
    """

    scale: Tensor
    shift: Tensor
    weights: list[Tensor] | None = None  # real ones, by groups of a kind
    positive: list[Tensor] | None = None  # where binary ones are +1
    threshold: Tensor | None = None  # of the input's signs
    left: Tensor | None = None  # slopes
    right: Tensor | None = None
    after: Tensor | None = None  # what is added behind the slopes
    has_norm: bool = True  # whether a BatchNorm behind takes what layers leave of scale and shift


def check_network(network: object, verb: str) -> None:
    """Says in one line what a name, or anything else that is no network, would fail by in many."""
    if not isinstance(network, nn.Module):
        how = "; ftbnn.build makes one by its name" if isinstance(network, str) else ""
        raise UserError(f"{wrong_kind(f'{verb} takes a torch.nn.Module', network)}{how}")


class Layer(nn.Module):
    """One operator to whoever names it: what its parts compute is booked under its own path."""

    has_binary_form: ClassVar[bool] = False  # whether its weights are, or can be made, signs
    reads_real: bool = False  # whether signs are meant to multiply real numbers

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        if callable(getattr(type(self), name, None)):
            what = f"{type(self).__name__}.{name}"
            raise UserError(f"{what} is a question that the layer answers: name the parameter otherwise")
        super().register_parameter(name, param)

    def progress(self, share: float) -> None:
        """This share of the training is done, 0 to 1: for schedules, which are functions of it."""

    def after_step(self) -> None:
        """The optimizer has taken a step: for methods that keep weights within bounds."""

    def binary_parameters(self) -> list[nn.Parameter]:
        """Those of its own parameters that deployment keeps as one bit each."""
        return []

    def rounded_parameters(self) -> dict[nn.Parameter, int]:
        """Those of its own parameters that deployment keeps as integers of so many bits, with one fp32 unit a row."""
        return {}

    def weight_signs(self) -> Tensor | None:
        """Where its binary weights are +1, in one row, to count how many turn; None if it has none."""
        return None

    def records(self) -> dict[str, float]:
        """Numbers worth a line of metrics after each epoch."""
        return {}

    def freeze(self) -> None:
        """Its weights become what its evaluation multiplies with, for formats that know no signs. No way back."""

    def input_shift(self) -> Tensor | None:
        """What it adds to its input before it takes signs, where that is its own: a learned threshold."""
        return None

    def adopt(self, packed: Packed) -> None:
        """Takes its numbers back from a file; what cannot be written back is found when both are compared."""


def layers(network: nn.Module) -> Iterator[tuple[str, Layer]]:
    """Every layer that answers, with its path."""
    return ((path, module) for path, module in network.named_modules() if isinstance(module, Layer))


def set_progress(network: nn.Module, share: float) -> None:
    """Tells every layer how much of the training is done, 0 to 1."""
    for _, layer in layers(network):
        layer.progress(share)


def after_step(network: nn.Module) -> None:
    for _, layer in layers(network):
        layer.after_step()


def records(network: nn.Module) -> dict[str, dict[str, float]]:
    """What layers have to tell, by path."""
    return {path: told for path, layer in layers(network) if (told := layer.records())}


def lay_out(network: nn.Module) -> None:
    """The weights of layers as the native core reads them: channels-last ones would be copied at every step."""
    for parameter in (p for _, layer in layers(network) for p in layer.parameters(recurse=False)):
        parameter.data = parameter.data.contiguous()


def freeze(network: nn.Module) -> None:
    for _, layer in layers(network):
        layer.freeze()


def speaks_for(module: nn.Module, *questions: str) -> bool:
    """Whether a layer's answers describe its forward: a subclass with a forward of its own must answer anew."""
    return _speaks_for(type(module), questions)  # type: ignore[arg-type]


@functools.cache
def _speaks_for(kind: type[nn.Module], questions: tuple[str, ...]) -> bool:
    def written_at(name: str) -> int:
        return next((depth for depth, base in enumerate(kind.__mro__) if name in vars(base)), len(kind.__mro__))

    return all(written_at(question) <= written_at("forward") for question in questions)


def is_watched(module: nn.Module) -> bool:
    """Whether somebody wants this module itself to be called: hooks, or a forward of their own put into its place."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in vars(module)
        or torch.nn.modules.module._has_any_global_hook()  # type: ignore[no-untyped-call]
    )
