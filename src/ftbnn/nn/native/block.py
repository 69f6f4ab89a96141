"""A whole block as one operator: sign, binary convolution, BatchNorm, shortcut, non-linearity; or the first two alone.

    code = u > 0,  u = x + input_shift          y = conv(code, sign(weight))
    z    = gamma * (factor * y - mean) / sqrt(var + eps) + beta + shortcut
    out  = slope * z + after,  slope = right where z > 0, else left;  or z cut to [-limit, limit]

What the native core keeps for backward is small: one bit per input for its code, one for the window of its gradient,
and the convolution's integers in 16 bits; a float tensor only if it lives anyway. `Block.of` says which layers are such
a block; the others, and those that somebody watches with hooks, run in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ftbnn.nn.backend import backend
from ftbnn.nn.layer import is_watched, speaks_for
from ftbnn.nn.native import plain
from ftbnn.nn.native.core import channels_last, core, is_dense, is_in_use, is_map, is_plain, statistics
from ftbnn.nn.native.operation import NOTHING, Operation, Room, Tensors, map_room
from ftbnn.nn.piecewise import slopes_of
from ftbnn.nn.rules import NO_RULE, Rule, Window, rule_named

if TYPE_CHECKING:
    from ftbnn.nn.bconv import BConv

# What a profile listens to: (address of the weights, multiply-accumulates, seconds by phase) of each call of the core.
Listener = Callable[[int, int, dict[str, float]], None]
PHASES = {"forward": ("pack weights", "pack", "conv", "activate"), "backward": ("sums", "gradient", "conv gradients")}
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside, the listener hears of every native block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


class Settings(NamedTuple):
    """Height before width."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int
    zero_one: bool
    rule: str  # the gradient's, with its numbers
    rule_numbers: tuple[float, ...]
    weight_bound: float
    identity: bool  # x is the shortcut
    normalise: bool
    batch_stats: bool
    byte_gradients: bool
    eps: float
    momentum: float
    limit: float  # inf: none
    learns_input: bool  # the gradient of x will be wanted
    packs_out: bool  # a block with the same window may follow: it gets the bits of out

    def output_size(self, h: int, w: int) -> tuple[int, int]:
        oh, ow = (
            (size + 2 * pad - kernel) // stride + 1
            for size, pad, kernel, stride in zip((h, w), self.padding, self.kernel, self.stride, strict=True)
        )
        return oh, ow


def _channels(weight: Tensor, tail: Tensor | None, groups: int) -> tuple[int, int]:
    """Inputs and outputs of a convolution: in uneven groups the last one's weights stand in `tail`."""
    if tail is None:
        return groups * weight.shape[1], weight.shape[0]
    return (groups - 1) * weight.shape[1] + tail.shape[1], weight.shape[0] + tail.shape[0]


class _BlockOperation(Operation):
    name = "block"
    settings = Settings
    required = ("x", "weight")
    optional = tuple(
        "shortcut tail factor gamma beta left right input_shift after running_mean running_var x_codes x_inside".split()
    )
    learned = tuple("x weight shortcut tail factor gamma beta left right input_shift after".split())
    results = ("out", "new_mean", "new_var", "codes", "inside", "y", "saved", "out_codes", "out_inside")
    kept = tuple(
        "x weight shortcut tail factor gamma beta left right input_shift after codes inside x_codes x_inside "
        "y saved".split()
    )

    def rooms(self, given: Tensors, settings: Settings) -> dict[str, Room]:
        n, inputs, h, w = given["x"].shape
        outputs = _channels(given["weight"], given["tail"], settings.groups)[1]
        oh, ow = settings.output_size(h, w)
        no_words = NOTHING._replace(dtype=torch.int64)
        words = _words(n, h, w, inputs) if given["x_codes"] is None else no_words
        out_words = _words(n, oh, ow, outputs) if settings.packs_out else no_words
        statistic = Room((outputs,)) if settings.batch_stats and given["running_mean"] is not None else NOTHING
        keeps_inside = settings.learns_input and _keeps_bits(given, settings)
        return {
            "out": map_room(n, outputs, oh, ow),
            "new_mean": statistic,
            "new_var": statistic,
            "codes": words,
            "inside": words if keeps_inside else no_words,
            "y": Room((n, oh, ow, outputs), torch.int16),
            "saved": Room((5, outputs)),
            "out_codes": out_words,
            "out_inside": out_words,
        }

    def keep(self, given: Tensors, settings: Settings) -> set[str]:
        is_linear = given["left"] is None and given["right"] is None and math.isinf(settings.limit)
        dropped = {name for name in ("codes", "inside") if not given[name].numel()}
        if is_linear:
            dropped.add("shortcut")
        needs_x = settings.identity and not is_linear
        if not needs_x and (not settings.learns_input or _keeps_bits(given, settings)):
            dropped.add("x")
        return set(self.kept) - dropped

    def backward_arguments(self, args: Sequence[Any]) -> tuple[Tensors, Settings, set[str]]:
        given, settings, wanted = super().backward_arguments(args)
        for name in ("codes", "inside"):  # backward need not know who made them
            before = given.pop(f"x_{name}")
            given[name] = before if given[name] is None else given[name]
        return given, settings, wanted

    def gradient_rooms(self, given: Tensors, settings: Settings, wanted: set[str]) -> dict[str, Room]:
        n, h, w, _ = given["codes"].shape
        inputs, outputs = _channels(given["weight"], given["tail"], settings.groups)
        makes = set(wanted)
        if wanted & {"weight", "tail"}:
            makes |= {"weight", "tail"}
        if wanted & {"x", "input_shift"} and not _keeps_bits(given, settings):
            makes |= {"x", "shortcut"} if settings.identity else {"x"}  # apart until the rule has been applied
        rooms = {"x": map_room(n, inputs, h, w), "shortcut": map_room(*given["grad"].shape)}
        rooms |= {name: Room((outputs,)) for name in ("factor", "gamma", "beta", "left", "right", "after")}
        learned = ("weight", "tail", "input_shift")
        rooms |= {name: Room(tuple(given[name].shape)) for name in learned if given[name] is not None}
        return {name: room for name, room in rooms.items() if name in makes}

    def native(self, given: Tensors, settings: Settings) -> Any:
        inputs, outputs = _channels(given["weight"], given["tail"], settings.groups)
        n, h, w = given["codes"].shape[:3] if "codes" in given else (given["x"].shape[k] for k in (0, 2, 3))
        told = {name: value for name, value in settings._asdict().items() if name not in ("learns_input", "packs_out")}
        return core.training.Block(n=n, h=h, w=w, inputs=inputs, outputs=outputs, **told)

    def heard(self, way: str, given: Tensors, seconds: Any) -> None:
        if not _listeners:
            return
        out = given["out" if way == "forward" else "grad"]
        weights = sum(given[name].numel() for name in ("weight", "tail") if given[name] is not None)
        macs = out.numel() // out.shape[1] * weights * (1 if way == "forward" else 2)
        phases = dict(zip(PHASES[way], seconds, strict=True))
        for listener in _listeners:
            listener(given["weight"].data_ptr(), macs, phases)

    def plain(self, given: Tensors, settings: Settings) -> Tensors:
        x = given["x"]
        u = x + plain.per_channel(given["input_shift"], 0, x)
        y = plain.convolve(plain.codes(u > 0, settings.zero_one, x), given, settings)
        factor = torch.ones_like(y[0, :, 0, 0]) if given["factor"] is None else given["factor"]
        mean, variance = torch.zeros_like(factor), torch.ones_like(factor)
        if settings.batch_stats:
            mean, variance = plain.moments(plain.per_channel(factor, 1, y) * y)
        elif settings.normalise:
            mean, variance = given["running_mean"], given["running_var"]
        root = 1 / (variance.double() + settings.eps).sqrt()
        rate = factor * root
        center = plain.moments(y)[0] if settings.batch_stats else torch.where(factor != 0, mean / factor, 0.0)
        gamma = 1.0 if given["gamma"] is None else given["gamma"].double()
        beta = 0.0 if given["beta"] is None else given["beta"].double()
        saved = torch.stack([gamma * rate, beta - gamma * root * mean, center, rate, root]).float()
        z = plain.block_z(y, saved, x if settings.identity else given["shortcut"])
        nothing = NOTHING.on(x.device)
        new_mean = new_var = nothing
        if settings.batch_stats and given["running_mean"] is not None:
            new_mean, new_var = plain.running(given, mean, variance, settings.momentum, y.numel() // y.shape[1])
        bits = settings.learns_input and _keeps_bits(given, settings)
        bits_made = bits and given["x_codes"] is None
        out = plain.activate(z, given, settings.limit)
        return {
            "out": out,
            "new_mean": new_mean,
            "new_var": new_var,
            "codes": plain.pack(u > 0) if given["x_codes"] is None else nothing.long(),
            "inside": plain.pack(u.abs() <= settings.rule_numbers[0]) if bits_made else nothing.long(),
            "y": y.permute(0, 2, 3, 1).to(torch.int16).contiguous(),
            "saved": saved,
            "out_codes": plain.pack(out > 0) if settings.packs_out else nothing.long(),
            "out_inside": plain.pack(out.abs() <= settings.rule_numbers[0]) if settings.packs_out else nothing.long(),
        }

    def plain_backward(self, given: Tensors, settings: Settings, wanted: set[str]) -> Tensors:
        grad, saved = given["grad"], given["saved"]
        inputs, _ = _channels(given["weight"], given["tail"], settings.groups)
        y = given["y"].permute(0, 3, 1, 2).to(grad.dtype)
        z = plain.block_z(y, saved, given["x"] if settings.identity else given["shortcut"])
        found = plain.activate_backward(grad, z, given, settings.limit)
        dz, (scale, _, mean, rate, root) = found.pop("z"), (row.view(1, -1, 1, 1) for row in saved)
        centered = y - mean
        found["beta"] = plain.sum_positions(dz)
        found["gamma"] = plain.sum_positions(dz * centered * rate)
        gamma = plain.per_channel(given["gamma"], 1, dz)
        # The batch's deviation takes a factor out again, but for eps.
        inner = settings.eps * root.square() * centered if settings.batch_stats else y
        found["factor"] = plain.sum_positions(gamma * root * dz * inner)
        dy = scale * dz
        if settings.batch_stats:
            sums = found["beta"].view(1, -1, 1, 1) + rate * centered * found["gamma"].view(1, -1, 1, 1)
            dy = dy - scale * sums / (y.numel() / y.shape[1])
        bits = plain.unpack(given["codes"], inputs)
        code_grad, weights = plain.convolve_backward(dy, plain.codes(bits, settings.zero_one, dy), given, settings)
        if _keeps_bits(given, settings):
            passed = code_grad * plain.unpack(given["inside"], inputs) if given["inside"] is not None else code_grad
        else:
            rule = rule_named(settings.rule, settings.rule_numbers)
            passed = code_grad * rule.derivative(given["x"] + plain.per_channel(given["input_shift"], 0, dz))
        found |= weights | {"input_shift": plain.sum_positions(passed), "shortcut": dz}
        found["x"] = passed + dz if settings.identity else passed
        made = self.gradient_rooms(given, settings, wanted)
        return {name: gradient for name, gradient in found.items() if name in made}


def _is_known_ahead(rule: Rule, shift: Tensor | None) -> bool:
    """Whether the block before could tell the bits of x. A compiler takes no attributes of tensors."""
    return rule.name == Window.name and shift is None and not torch.compiler.is_compiling()


def _words(n: int, h: int, w: int, channels: int) -> Room:
    return Room((n, h, w, -(-channels // plain.WORD)), torch.int64)


def _keeps_bits(given: Tensors, settings: Settings) -> bool:
    """Whether a bit per input is all that the gradient of x needs of x."""
    return settings.rule == Window.name and given["input_shift"] is None


BLOCK = _BlockOperation()


@dataclass(frozen=True)
class _Bits:
    """What a block knows of the numbers that it made, as long as they stay the same: signs, and which are in a window.

    It is an attribute of the tensor, so that the block behind finds it there."""

    bound: float
    address: int
    version: int
    codes: Tensor
    inside: Tensor

    @classmethod
    def attach(cls, out: Tensor, bound: float, codes: Tensor, inside: Tensor) -> None:
        out._ftbnn_bits = cls(bound, out.data_ptr(), out._version, codes, inside)  # type: ignore[attr-defined]

    @classmethod
    def of(cls, x: Tensor, settings: Settings) -> dict[str, Tensor]:
        """For a block that packs x with these settings: x_codes and x_inside, or nothing."""
        bits = getattr(x, "_ftbnn_bits", None)
        if bits is None or not settings.packs_out or bits.bound != settings.rule_numbers[0]:
            return {}
        is_as_made = bits.address == x.data_ptr() and bits.version == x._version
        return {"x_codes": bits.codes, "x_inside": bits.inside} if is_as_made else {}


@dataclass(frozen=True)
class Block:
    """act(norm(conv(x)) + shortcut) of layers that one operator computes."""

    given: Tensors
    norm: nn.BatchNorm2d | None
    settings: Settings
    is_whole: bool  # it has multiplied by the convolution's scale, if there is one

    @classmethod
    def of(
        cls,
        x: Tensor,
        conv: nn.Module,
        norm: nn.Module | None = None,
        act: nn.Module | None = None,
        shortcut: Tensor | None = None,
    ) -> Block | None:
        """The block of these layers in their present modes, on this input; None where they are none."""
        from ftbnn.nn.bconv import BConv

        if not is_in_use() or not isinstance(conv, BConv) or not is_map(x) or x.shape[1] != conv.in_channels:
            return None
        scale = _scale_of(conv)
        is_whole = conv.scale is None or scale is not None
        parts = [layer for layer in (conv.input, conv.signs, norm, act) if layer is not None]
        if norm is not None or act is not None or shortcut is not None:  # else it is conv itself that asks
            parts.append(conv)
            if type(conv).forward is not BConv.forward or not is_whole:
                return None
        if scale is not None and conv.scale is not None:
            parts.append(conv.scale)
        slopes = slopes_of(act, conv.out_channels)
        if slopes is None or any(is_watched(layer) for layer in parts):
            return None
        is_normal = slopes.before is None if norm is None else _can_normalise(norm, conv.out_channels)
        are_signs = conv.signs.is_binary and speaks_for(conv.signs, "latent", "scale")
        inputs = _input_side(x, conv) if is_normal and are_signs else None
        if inputs is None:
            return None
        u, zero_one, rule, shift = inputs
        weights, factor, weight_bound = _weight_side(conv)
        if scale is not None:
            factor = scale if factor is None else factor * scale
        beta = getattr(norm, "bias", None)
        if slopes.before is not None:  # act(z + before): a larger beta
            beta = slopes.before if beta is None else beta + slopes.before
        given = {
            "x": u,
            "weight": weights[0],
            "shortcut": None if shortcut is u else shortcut,
            "tail": weights[1] if len(weights) > 1 else None,
            "factor": factor,
            "gamma": getattr(norm, "weight", None),
            "beta": beta,
            "left": slopes.left,
            "right": slopes.right,
            "input_shift": shift,
            "after": slopes.after,
        }
        learns = torch.is_grad_enabled() and (u.requires_grad or (shift is not None and shift.requires_grad))
        settings = Settings(
            kernel=conv.kernel_size,
            stride=conv.stride,
            padding=conv.padding,
            groups=conv.groups,
            zero_one=zero_one,
            rule=rule.name,
            rule_numbers=tuple(rule.numbers),
            weight_bound=weight_bound,
            identity=shortcut is u,
            normalise=norm is not None,
            batch_stats=False,
            byte_gradients=backend() == "native8",
            eps=0.0,
            momentum=0.0,
            limit=slopes.limit,
            learns_input=learns,
            packs_out=learns and norm is not None and _is_known_ahead(rule, shift),
        )
        fits = conv.dilation == (1, 1) and all(is_plain(tensor) for tensor in given.values())
        return cls(given, norm, settings, is_whole) if fits and _takes(u, weights, shortcut, settings) else None  # type: ignore[arg-type]

    def run(self) -> Tensor:
        given, settings, running = self.given, self.settings, None
        if self.norm is not None:
            x = given["x"]
            oh, ow = settings.output_size(x.shape[2], x.shape[3])
            batch_stats, running, eps, momentum = statistics(self.norm, x.shape[0] * oh * ow)
            settings = settings._replace(batch_stats=batch_stats, eps=eps, momentum=momentum)
        if running is not None:
            given = given | {"running_mean": running[0], "running_var": running[1]}
        made = BLOCK.run(given | _Bits.of(given["x"], settings), settings)
        if running is not None and settings.batch_stats:
            running[0].copy_(made["new_mean"])
            running[1].copy_(made["new_var"])
        out: Tensor = made["out"]
        if settings.packs_out:
            _Bits.attach(out, settings.rule_numbers[0], made["out_codes"], made["out_inside"])
        return out


LARGEST_SUM = 32767  # the convolution's integers are kept in 16 bits
LARGEST_KERNEL = 15
CORE_RULES = frozenset({"window", "polynomial", "tanh"})  # of the gradient of x
MOST_TAPS = 128  # of the gradients: GRAD_TAPS of native/kernels/conv_grad/conv_grad.h


def _takes(x: Tensor, weights: list[Tensor], shortcut: Tensor | None, settings: Settings) -> bool:
    """Whether the native core can do a convolution of this size."""
    kh, kw = settings.kernel
    inside = all(size + 2 * p >= k for size, p, k in zip(x.shape[2:], settings.padding, settings.kernel, strict=True))
    if not inside or max(kh, kw) > LARGEST_KERNEL or kh * kw > MOST_TAPS:
        return False
    if max(weight.shape[1] for weight in weights) * kh * kw > LARGEST_SUM:
        return False
    out = (x.shape[0], sum(weight.shape[0] for weight in weights), *settings.output_size(x.shape[2], x.shape[3]))
    return shortcut is None or (is_map(shortcut) and shortcut.shape == out)


def _can_normalise(norm: nn.Module, channels: int) -> bool:
    return (
        type(norm) is nn.BatchNorm2d
        and norm.num_features == channels
        and is_dense(norm.running_mean)
        and is_dense(norm.running_var)
    )


def _input_side(x: Tensor, conv: BConv) -> tuple[Tensor, bool, Rule, Tensor | None] | None:
    """(what signs are taken of, whether codes are {0, 1}, the gradient's rule, what is added before) of what makes
    codes of x; None if nothing does. Statistics of images, and rules that the core does not know, are PyTorch's."""
    side = conv.input
    if side is not None:
        if not side.is_binary or not speaks_for(side, "shift", "standardised"):
            return None
        u, shift = side.standardised(x), side.shift()
        if side.rule.name in CORE_RULES:
            return u, side.zero_one, side.rule, shift
        if shift is not None:
            u = u + shift.view(-1, 1, 1)
        return _Gate.apply(u, side.rule), side.zero_one, NO_RULE, None  # type: ignore[no-untyped-call]
    if torch.compiler.is_compiling():
        return None
    dense = channels_last(x)
    code = core.training.code_of(dense.data_ptr(), dense.numel())  # codes already: a Sign stands before
    return (x, code == 2, NO_RULE, None) if code else None


def _scale_of(conv: BConv) -> Tensor | None:
    """What the convolution's scale multiplies each output channel with, where that is all it does."""
    told = getattr(conv.scale, "of_channels", None)
    if told is None or conv.scale is None or not speaks_for(conv.scale, "of_channels"):
        return None
    found: Tensor = told()
    return found.expand(conv.out_channels)


def _weight_side(conv: BConv) -> tuple[list[Tensor], Tensor | None, float]:
    """What signs are taken of, the factor of each output channel, and the bound of the gradient's window."""
    signs = conv.signs
    latents = [signs.latent(conv.proxies(part)) for part in conv.parts]
    scales = [signs.scale(latent if signs.multiplier == "function" else latent.detach()) for latent in latents]
    given = [scale for scale in scales if scale is not None]
    factor = torch.cat(given) if given else None
    if signs.multiplier == "none":
        latents = [
            latent if scale is None else _Divided.apply(latent, scale)  # type: ignore[no-untyped-call]
            for latent, scale in zip(latents, scales, strict=True)
        ]
    if isinstance(signs.rule, Window):
        return latents, factor, signs.rule.bound
    return [_Gate.apply(latent, signs.rule) for latent in latents], factor, math.inf  # type: ignore[no-untyped-call]


class _Divided(torch.autograd.Function):
    """Hands a weight on, and takes the factor of its output channel out of its gradient."""

    @staticmethod
    def forward(ctx: Any, latent: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return latent.view_as(latent)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return grads[0] / factor.where(factor != 0, 1).view(-1, 1, 1, 1), None


class _Gate(torch.autograd.Function):
    """Hands numbers on, and lets their gradient pass by a rule that the core does not know."""

    @staticmethod
    def forward(ctx: Any, latent: Tensor, rule: Rule) -> Tensor:
        ctx.rule = rule
        ctx.save_for_backward(rule.keep(latent))
        return latent.view_as(latent)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.rule.apply(grads[0], *ctx.saved_tensors), None
