"""A method: how a network of a given shape becomes binary, as one literal row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from torch import nn

from ftbnn.errors import UserError, unknown, wrong_kind
from ftbnn.nn.bconv import BConv
from ftbnn.nn.fprelu import FPReLU
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs

Act = str | Callable[[int], nn.Module]  # a name of ACTS, or what makes the module for so many channels

ACTS: dict[str, Callable[[int], nn.Module]] = {
    "fprelu": FPReLU,
    "fprelu-quarter": lambda channels: FPReLU(channels, left=0.25),  # starts as PReLU does
    "prelu": nn.PReLU,
    "relu": lambda _: nn.ReLU(),
    "hardtanh": lambda _: nn.Hardtanh(),
    "none": lambda _: nn.Identity(),
}

# How a block goes: C the convolution with its sides and scale, B BatchNorm, A the non-linearity, + the shortcut.
Order = Literal["CB+A", "BCA+", "BC+A", "CAB+", "C+A"]


def _maker(act: Act) -> Callable[[int], nn.Module]:
    if isinstance(act, str):
        if act not in ACTS:
            raise unknown("non-linearity", act, ACTS)
        return ACTS[act]
    if isinstance(act, nn.Module) or not callable(act):  # a module can be called, but not with channels
        raise wrong_kind("a non-linearity is a name or makes a module for so many channels", act)
    return act


def activation(act: Act, channels: int) -> nn.Module:
    """The non-linear module that ends a block."""
    return _maker(act)(channels)


def plain_input(channels: int, follows_relu: bool) -> Sign:  # noqa: ARG001
    return Sign(zero_one=follows_relu)


@dataclass(frozen=True)
class Shape:
    """What a network asks of a convolution."""

    in_channels: int
    out_channels: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1
    follows_relu: bool = False

    @property
    def window(self) -> dict[str, Any]:
        return {"kernel_size": self.kernel, "stride": self.stride, "groups": self.groups}

    @property
    def fan_in(self) -> int:
        return self.in_channels // self.groups * self.kernel**2


class MakeConv(Protocol):
    """What makes a method's convolution where two sides and a scale are not all of it."""

    def __call__(self, shape: Shape, /) -> nn.Module: ...


@dataclass(frozen=True)
class Method:
    """What a method brings: both sides of its binary convolutions, what scales them, the order of a block and its
    non-linearities; and what is known of it, for people."""

    about: str
    input: Callable[[int, bool], Sign] | None = plain_input  # of so many channels, which may follow a ReLU
    signs: Callable[[], Signs] = Signs
    scale: Callable[[Shape], nn.Module] | None = None
    conv: MakeConv | None = None  # in the place of the three above
    order: Order = "CB+A"
    act: Act = "none"
    stage_end_act: Act | None = None  # None: as the others
    stem_act: Act = "none"
    has_size: bool = False  # whether it learns for images of one size
    recipe: Mapping[str, str] = field(default_factory=dict, hash=False)  # settings that belong to it
    bits: tuple[int, int] = (1, 1)  # of weights and inputs
    special: str = ""
    deploys: str = "signs, one affine per channel"  # what its file needs
    published: str = ""  # top-1 with its source
    doubt: str = ""  # what is not certain

    def __post_init__(self) -> None:
        """What is no order or non-linearity is said here, not by the first forward."""
        if self.order not in get_args(Order):
            known = ", ".join(get_args(Order))
            raise UserError(f"the order of a block is one of {known} (+ is the shortcut), not {self.order!r}")
        for act in (self.act, self.end_act, self.stem_act):
            _maker(act)

    @property
    def end_act(self) -> Act:
        return self.act if self.stage_end_act is None else self.stage_end_act

    def convolution(self, shape: Shape) -> nn.Module:
        if self.conv is not None:
            return self.conv(shape)
        is_at_end = self.order.endswith("A") and not self.order.startswith(
            "B"
        )  # a sign reads what a non-linearity gave
        follows_relu = shape.follows_relu and is_at_end
        return BConv(
            shape.in_channels,
            shape.out_channels,
            **shape.window,
            input=None if self.input is None else self.input(shape.in_channels, follows_relu),
            signs=self.signs(),
            scale=None if self.scale is None else self.scale(shape),
            reads_real=self.input is None,
        )
