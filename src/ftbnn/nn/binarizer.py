"""What turns real numbers into codes: both sides of a binary layer, inputs and weights, are binarizers."""

from typing import ClassVar, Literal

from torch import nn

from ftbnn.errors import unknown
from ftbnn.nn.layer import Layer
from ftbnn.nn.rules import Rule

Role = Literal["activations", "weights"]


class Binarizer(Layer):
    """One side of a binary layer: its `role`, its gradient `rule`, and the function it is at present, its `mode`.

    `modes` are the functions it can be, the binary one first. A rule may follow a schedule of the training's progress.
    """

    role: ClassVar[Role]
    modes: ClassVar[tuple[str, ...]]

    def __init__(self, rule: Rule, mode: str | None = None) -> None:
        super().__init__()
        self.schedule = rule
        self.rule = rule.at(0.0)
        self.set_mode(mode or self.modes[0])

    @property
    def is_binary(self) -> bool:
        return self.mode == self.modes[0]

    def set_mode(self, mode: str) -> None:
        """Binary or real, for multi-step training."""
        if mode not in self.modes:
            raise unknown(f"mode of {self.role}", mode, self.modes)
        self.mode = mode

    def progress(self, share: float) -> None:
        self.rule = self.schedule.at(share)

    def extra_repr(self) -> str:
        return f"{self.rule}" + ("" if self.is_binary else f", mode={self.mode}")


def set_mode(network: nn.Module, *, activations: str | None = None, weights: str | None = None) -> None:
    """Sets every side inside `network`: step 0 of multi-step training is tanh/real, step 1 sign/real, step 2
    sign/binary. None leaves a side as it is."""
    wanted = {"activations": activations, "weights": weights}
    for module in network.modules():
        if isinstance(module, Binarizer) and (mode := wanted[module.role]) is not None:
            module.set_mode(mode)
