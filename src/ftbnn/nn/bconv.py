"""BConv: a convolution with weights in {-1, +1}, no bias, and true zero padding: a padded tap contributes 0.

It owns both its sides: `input`, what turns real numbers into codes (None: they come as they are), and `signs`, what
turns the weights. The paper's forms are `Sign` and `Signs`; another method brings its own. Where a side has several
codes (levels of the input, bases of the weights) it is a weighted sum of binary convolutions. `scale` is what a method
multiplies the result with, where that is more than one constant per channel: scale(result, x).
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.errors import UserError, wrong_kind
from ftbnn.groups import Part, split_groups
from ftbnn.nn import native, operators
from ftbnn.nn.backend import backend
from ftbnn.nn.layer import Layer, Packed
from ftbnn.nn.sign import Sign
from ftbnn.nn.signs import Signs

Pair = int | tuple[int, int]

WHOLE, REAL = 8, 32  # bits of a weight that is no single one
INIT_GAIN = 2.0  # Xavier-normal, as in the paper's appendix


def _pair(name: str, value: Pair, *, least: int) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, Sequence) else ()
    if len(pair) != 2 or not all(isinstance(size, int) and size >= least for size in pair):
        raise UserError(f"{name} of a binary convolution is one or two whole numbers from {least} on, not {value!r}")
    return pair


def _plain(  # noqa: PLR0917 - the schema's order
    x: Tensor,
    weight: Tensor,
    tail: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution in any groups: those of `weight`, and where the groups are uneven the last one with `tail`."""
    window = (list(stride), list(padding), list(dilation))
    if tail is None:
        return F.conv2d(x, weight, None, *window, groups)
    head = (groups - 1) * weight.shape[1]
    return torch.cat(
        [F.conv2d(x[:, :head], weight, None, *window, groups - 1), F.conv2d(x[:, head:], tail, None, *window)], dim=1
    )


class _BConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, tail: Tensor | None, *window: Any) -> Tensor:
        ctx.save_for_backward(x, weight, tail)
        ctx.window = window
        with operators.below_autograd():
            result: Tensor = _OPERATOR(x, weight, tail, *window)
            return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [None if tensor is None else tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
        with torch.enable_grad():
            out = _plain(*inputs, *ctx.window)  # type: ignore[arg-type]
        found = torch.autograd.grad(out, [tensor for tensor in inputs if tensor is not None], grads[0])
        return (*found, *[None] * (len(inputs) - len(found)), *[None] * len(ctx.window))


_OPERATOR = operators.define(
    "bconv(Tensor x, Tensor weight, Tensor? tail, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    plain=_plain,
    fake=_plain,
    gradient=_BConv.apply,
)


def convolve(x: Tensor, weight: Tensor, tail: Tensor | None, *window: Any) -> Tensor:
    """What `_plain` computes, as an operator where somebody looks."""
    run = _OPERATOR if operators.is_seen() and backend() != "plain" else _plain
    out: Tensor = run(x, weight, tail, *window)
    return out


def _by_channel(factor: float | Tensor) -> float | Tensor:
    return factor.view(-1, 1, 1) if isinstance(factor, Tensor) and factor.dim() == 1 else factor


class BConv(Layer):
    """Binary convolution over (N, in_channels, H, W), in any number of groups up to the number of channels.

    `weight` holds the real-valued proxy weights as nn.Conv2d would; where the groups are uneven, the last group's
    stand in `tail`. `padding` is by default half the kernel, which keeps the size of the map; "same" says so.
    """

    has_binary_form = True

    def __init__(  # noqa: PLR0917 - nn.Conv2d's order
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair = 3,
        stride: Pair = 1,
        padding: Pair | str | None = None,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = False,
        *,
        input: Sign | None = None,
        signs: Signs | None = None,
        scale: nn.Module | None = None,
        reads_real: bool = False,
    ) -> None:
        super().__init__()
        for side, given, kind in (("input", input, Sign), ("signs", signs, Signs)):
            if given is not None and not isinstance(given, kind):
                wanted = f"{side} of a binary convolution is a {kind.__name__} or a class derived from it"
                raise wrong_kind(wanted, given)
        if bias:
            raise UserError("a binary convolution has no bias; the BatchNorm behind it has one")
        if min(in_channels, out_channels) < 1:
            raise UserError(f"a binary convolution needs channels, not {in_channels} -> {out_channels}")
        if not 1 <= groups <= min(in_channels, out_channels):
            raise UserError(
                f"groups={groups} does not fit a binary convolution of {in_channels} -> {out_channels} channels; "
                f"it must be 1 to {min(in_channels, out_channels)}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _pair("kernel_size", kernel_size, least=1)
        self.stride = _pair("stride", stride, least=1)
        self.dilation = _pair("dilation", dilation, least=1)
        self.padding = self._padding(padding)
        self.groups = groups
        self.input = input
        self.signs = Signs() if signs is None else signs
        self.scale = scale
        self.reads_real = reads_real
        self.parts = split_groups(in_channels, out_channels, groups)
        for part in self.parts:
            inputs = (part.inputs.stop - part.inputs.start) // part.groups
            outputs = part.outputs.stop - part.outputs.start
            setattr(self, part.weight, nn.Parameter(torch.empty(outputs, inputs, *self.kernel_size)))
        if len(self.parts) == 1:
            self.register_parameter("tail", None)
        self.reset_parameters()

    def _padding(self, padding: Pair | str | None) -> tuple[int, int]:
        spans = [step * (size - 1) for step, size in zip(self.dilation, self.kernel_size, strict=True)]
        if padding is None:
            return spans[0] // 2 + spans[0] % 2, spans[1] // 2 + spans[1] % 2
        if padding == "valid":
            return 0, 0
        if padding == "same":
            if self.stride != (1, 1) or any(span % 2 for span in spans):
                raise UserError('padding="same" needs a stride of 1 and an odd kernel; give the padding in numbers')
            return spans[0] // 2, spans[1] // 2
        if isinstance(padding, str):
            raise UserError(f'padding is "same", "valid", or one or two whole numbers, not {padding!r}')
        return _pair("padding", padding, least=0)

    def reset_parameters(self) -> None:
        taps = math.prod(self.kernel_size)
        for part in self.parts:
            weight = self.proxies(part)
            fan_in, fan_out = weight.shape[1] * taps, self.out_channels * taps
            nn.init.normal_(weight, std=INIT_GAIN * math.sqrt(2.0 / (fan_in + fan_out)))

    def proxies(self, part: Part) -> Tensor:
        """The real-valued weights of one part (not `get_parameter`: torch.func puts plain tensors in their place)."""
        weight: Tensor = getattr(self, part.weight)
        return weight

    def forward(self, x: Tensor) -> Tensor:
        block = native.Block.of(x, self)
        out = self._convolve(x) if block is None else block.run()
        is_done = self.scale is None or (block is not None and block.is_whole)
        return out if is_done else self.scale(out, x)  # type: ignore[misc]

    def _convolve(self, x: Tensor) -> Tensor:
        if not self.training and (terms := self._terms(x)) is not None:
            first, *others = (self._one(codes, weights) * _by_channel(factor) for factor, codes, weights in terms)
            return sum(others, first)
        codes = x if self.input is None else self.input(x)
        return self._one(codes, [self.signs(self.proxies(part)) for part in self.parts])

    def _one(self, codes: Tensor, weights: Sequence[Tensor]) -> Tensor:
        tail = weights[1] if len(weights) > 1 else None
        return convolve(codes, weights[0], tail, self.stride, self.padding, self.dilation, self.groups)

    def _terms(self, x: Tensor) -> list[tuple[Any, Tensor, list[Tensor]]] | None:
        """(factors of the output channels, codes, weights of the parts) of each binary convolution, as deployment has
        them; None where there is but one. Training, where a real-valued product is faster, computes the same."""
        planes = self.input.planes(x) if self.input is not None and self.input.is_binary else None
        bases = [self.signs.bases(self.proxies(part)) if self.signs.is_binary else None for part in self.parts]
        if planes is None and bases[0] is None:
            return None
        if planes is None:
            planes = [(1.0, x if self.input is None else self.input(x))]
        if bases[0] is None:
            alone = [self.signs(self.proxies(part)) for part in self.parts]
            return [(factor, codes, alone) for factor, codes in planes]
        several = [given for given in bases if given is not None]
        weights = [
            (torch.cat([factor for factor, _ in parts]), [codes for _, codes in parts])
            for parts in zip(*several, strict=True)
        ]
        return [(level * factor, codes, signs) for level, codes in planes for factor, signs in weights]

    def after_step(self) -> None:
        for part in self.parts:
            self.signs.project(self.proxies(part))

    def _parameters_of_parts(self) -> list[nn.Parameter]:
        return [weight for part in self.parts if isinstance(weight := self.proxies(part), nn.Parameter)]

    def _bits(self) -> int:
        """Of a weight in a file: signs on real numbers stand there as integers."""
        bits = self.signs.bits() if self.signs.is_binary else REAL
        return WHOLE if self.reads_real and bits == 1 else bits

    def binary_parameters(self) -> list[nn.Parameter]:
        return self._parameters_of_parts() if self._bits() == 1 else []

    def rounded_parameters(self) -> dict[nn.Parameter, int]:
        bits = self._bits()
        return dict.fromkeys(self._parameters_of_parts(), bits) if 1 < bits < REAL else {}

    def weight_signs(self) -> Tensor | None:
        if not self.signs.is_binary:
            return None
        return torch.cat([self.signs.latent(self.proxies(part).detach()).flatten() > 0 for part in self.parts])

    @torch.no_grad()
    def freeze(self) -> None:
        for part in self.parts:
            self.proxies(part).copy_(self.signs(self.proxies(part)))
        self.signs.set_mode("real")

    def input_shift(self) -> Tensor | None:
        return None if self.input is None else self.input.input_shift()

    @torch.no_grad()
    def adopt(self, packed: Packed) -> None:
        if self.input is not None:
            self.input.adopt(packed)
        given = packed.positive or packed.weights
        if given is None:
            return
        magnitudes = []
        for part, numbers in zip(self.parts, given, strict=True):
            proxies = self.proxies(part)
            if packed.positive is None:
                proxies.copy_(numbers)
                continue
            size = proxies.abs().mean()  # that which the layer starts with
            proxies.copy_(self.signs.transform.weights_of(numbers, size))
            magnitudes.append(self.signs(proxies).abs()[:, 0, 0, 0].double())
        if magnitudes:
            packed.scale = packed.scale / torch.cat(magnitudes)
        if magnitudes and not packed.has_norm and self.signs.magnitude is not None:
            self._enlarge(packed)
        if isinstance(self.scale, Layer):
            self.scale.adopt(packed)

    def _enlarge(self, packed: Packed) -> None:
        """Proxies so large that their magnitude is the scale; if it does not follow them, comparing both finds it."""
        for part in self.parts:
            self.proxies(part).mul_(packed.scale[part.outputs].view(-1, 1, 1, 1))
        packed.scale = torch.ones_like(packed.scale)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        return (
            f"{text}, padding={self.padding}"
            + (f", dilation={self.dilation}" if self.dilation != (1, 1) else "")
            + f", groups={self.groups}"
            + (" (uneven)" if len(self.parts) > 1 else "")
        )
