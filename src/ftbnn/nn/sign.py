"""Sign: a real number in, one of two codes out, and a gradient by a rule.

    forward    1 where x + shift > 0, else -1; `zero_one`, for an input that follows a ReLU: else 0
    backward   dL/dx = dL/dy * d(x + shift), the rule's derivative (the paper's: 1 where |x| <= 1.2, else 0)

The +-1 value at 0 is -1, not torch.sign's 0: deployment has no third value, and training must be the same function.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ftbnn.errors import unknown
from ftbnn.nn import operators
from ftbnn.nn.backend import backend
from ftbnn.nn.binarizer import Binarizer
from ftbnn.nn.layer import Packed
from ftbnn.nn.rules import DEFAULT_BOUND, Polynomial, Rule, Window, rule_named

ActivationMode = Literal["sign", "tanh", "identity"]
# By which statistics of all its channels and positions an image is standardised first: none; in training its deviation,
# which leaves signs as they are and sets where gradients pass; or its mean, in evaluation too, and that.
ImageStatistics = Literal["none", "deviation", "mean"]
ACTIVATION_MODES: tuple[ActivationMode, ...] = ("sign", "tanh", "identity")


def _shifted(x: Tensor, shift: Tensor | None) -> Tensor:
    """x + shift, one number per channel (dimension 1)."""
    return x if shift is None else x + shift.to(x.dtype).view(-1, *[1] * (x.dim() - 2))


def _code(x: Tensor, zero_one: bool) -> Tensor:
    # clamp and sign run vectorised where torch.where does not: a tenth of the time on a CPU.
    ones = torch.sign(x.clamp_min(0))
    return ones if zero_one else ones.mul_(2).sub_(1)


def _plain(x: Tensor, shift: Tensor | None, zero_one: bool, rule: str, numbers: Sequence[float]) -> Tensor:  # noqa: ARG001
    return _code(_shifted(x, shift), zero_one)


def _fake(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


class _Sign(torch.autograd.Function):
    """Keeps what the rule needs: of a window one byte per element, not a copy of x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, shift: Tensor | None, zero_one: bool, rule: str, numbers: Sequence[float]) -> Tensor:
        if not operators.is_seen():
            return _plain(x, shift, zero_one, rule, numbers)
        with operators.below_autograd():
            result: Tensor = _OPERATOR(x, shift, zero_one, rule, numbers)
            return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        x, shift, _, rule, numbers = inputs
        ctx.rule, ctx.has_shift = rule_named(rule, numbers), shift is not None
        ctx.save_for_backward(ctx.rule.keep(_shifted(x, shift)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = ctx.rule.apply(grads[0], *ctx.saved_tensors)
        wants_shift = ctx.has_shift and ctx.needs_input_grad[1]
        shift_grad = grad.sum([0, *range(2, grad.dim())]) if wants_shift else None
        return grad, shift_grad, None, None, None


_OPERATOR = operators.define(
    "sign(Tensor x, Tensor? shift, bool zero_one, str rule, float[] numbers) -> Tensor",
    plain=_plain,
    fake=_fake,
    gradient=_Sign.apply,
)


def sign(
    x: Tensor,
    *,
    zero_one: bool = False,
    bound: float | None = None,
    rule: Rule | None = None,
    shift: Tensor | None = None,
) -> Tensor:
    """The codes of x (or of x + shift, one number per channel), with the gradient of `rule`: by default, and with a
    `bound` of one's own, a window."""
    rule = rule or Window(DEFAULT_BOUND if bound is None else bound)
    if backend() == "plain":
        return _as_written(x, shift, zero_one, rule)
    arguments = (x, shift, zero_one, rule.name, rule.numbers)
    if operators.is_seen():
        seen: Tensor = _OPERATOR(*arguments)
        return seen
    learns = torch.is_grad_enabled() and (x.requires_grad or (shift is not None and shift.requires_grad))
    if learns or operators.is_transformed():
        result: Tensor = _Sign.apply(*arguments)  # type: ignore[no-untyped-call]
        return result
    return _plain(*arguments)


def _as_written(x: Tensor, shift: Tensor | None, zero_one: bool, rule: Rule) -> Tensor:
    """The paper's appendix D: straight-through by detaching. Without a gradient, in operators that every format has."""
    x = _shifted(x, shift)
    if torch.is_grad_enabled() and x.requires_grad:
        smooth, code = rule.primitive(x), torch.sign(x)
        if zero_one and shift is not None:  # else a ReLU has left nothing negative
            code = code.clamp_min(0)
        return smooth + (code - smooth).detach()
    return torch.where(x > 0, torch.ones_like(x), torch.full_like(x, 0.0 if zero_one else -1.0))


class Sign(Binarizer):
    """Binarizes activations: {-1, +1}, or {0, 1} where the input follows a ReLU (`zero_one`).

    `mode` replaces the function for multi-step training: `tanh` (its step 0) or `identity` (a real-valued network).
    """

    role = "activations"
    modes = ACTIVATION_MODES

    def __init__(
        self,
        *,
        zero_one: bool = False,
        bound: float = DEFAULT_BOUND,
        mode: ActivationMode = "sign",
        rule: Rule | None = None,
        image: ImageStatistics = "none",
    ) -> None:
        super().__init__(rule or Window(bound), mode)
        if image not in get_args(ImageStatistics):
            raise unknown("statistics of an image", image, get_args(ImageStatistics))
        self.zero_one, self.image = zero_one, image

    def standardises(self) -> bool:
        """Whether it looks at the whole image before it takes signs."""
        return self.image == "mean" or (self.image == "deviation" and self.training)

    def standardised(self, x: Tensor) -> Tensor:
        if not self.standardises():
            return x
        dims = tuple(range(1, x.dim()))
        if self.image == "mean":
            x = x - x.mean(dims, keepdim=True)
        return x / (x.var(dims, keepdim=True) + 1e-5).sqrt() if self.training else x

    def planes(self, x: Tensor) -> list[tuple[float | Tensor, Tensor]] | None:  # noqa: ARG002
        """Codes whose weighted sum the convolution reads, of an input of several levels; None: its codes alone."""
        return None

    def shift(self) -> Tensor | None:
        """What is added to each channel before its sign is taken: a learned threshold, with its sign turned."""
        return None

    def input_shift(self) -> Tensor | None:
        return self.shift()

    def forward(self, x: Tensor) -> Tensor:
        x = self.standardised(x)
        if self.mode == "sign":
            return sign(x, zero_one=self.zero_one, rule=self.rule, shift=self.shift())
        shifted = _shifted(x, self.shift())
        return torch.tanh(shifted) if self.mode == "tanh" else shifted

    def extra_repr(self) -> str:
        codes = "{0, 1}" if self.zero_one else "{-1, +1}"
        return f"{codes}, {self.rule}" + ("" if self.is_binary else f", mode={self.mode}")


class RSign(Sign):
    """A sign with a learned threshold per channel (ReActNet)."""

    def __init__(self, channels: int, *, zero_one: bool = False, rule: Rule | None = None) -> None:
        super().__init__(zero_one=zero_one, rule=rule or Polynomial())
        self.bias = nn.Parameter(torch.zeros(channels))

    def shift(self) -> Tensor:
        return self.bias

    @torch.no_grad()
    def adopt(self, packed: Packed) -> None:
        if packed.threshold is not None:
            self.bias.copy_(-packed.threshold)
