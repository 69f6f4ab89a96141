"""BatchNorm with what follows it, a shortcut, a non-linearity or a max-pool, as one operator.

    z = gamma * (x - mean) / sqrt(var + eps) + beta + shortcut,    out = slope * z, or the largest z of every window

It keeps its input and the shortcut for backward, and of a pool the outputs and a byte for each, never the normalised
map.
"""

import math
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.nn.layer import is_watched
from ftbnn.nn.native import plain
from ftbnn.nn.native.core import core, is_dense, is_in_use, is_map, is_plain, statistics
from ftbnn.nn.native.operation import NOTHING, Operation, Room, Tensors, map_room
from ftbnn.nn.native.pool import Window, window_of
from ftbnn.nn.piecewise import Slopes, slopes_of

MOST_TAPS = 256  # the place of a maximum is kept in 8 bits


class Settings(NamedTuple):
    """`pool` is kernel, stride and padding of a max-pool, each of height and width, and the size it gives; or empty.
    `conv` is stride and padding of the convolution before the norm, where the operator has one."""

    pool: tuple[int, ...]
    batch_stats: bool
    eps: float
    momentum: float
    conv: tuple[int, ...] = ()


class NormOperation(Operation):
    name = "norm"
    settings = Settings
    required: ClassVar[tuple[str, ...]] = ("x",)
    optional: ClassVar[tuple[str, ...]] = ("shortcut", "gamma", "beta", "left", "right", "running_mean", "running_var")
    learned: ClassVar[tuple[str, ...]] = ("x", "shortcut", "gamma", "beta", "left", "right")
    results: ClassVar[tuple[str, ...]] = ("out", "new_mean", "new_var", "saved", "taps")
    kept: ClassVar[tuple[str, ...]] = ("x", "shortcut", "gamma", "beta", "left", "right", "saved", "taps", "out")

    def rooms(self, given: Tensors, settings: Settings) -> dict[str, Room]:
        n, channels, h, w = given["x"].shape
        oh, ow = settings.pool[6:] or (h, w)
        statistic = Room((channels,)) if settings.batch_stats and given["running_mean"] is not None else NOTHING
        taps = Room((n, oh, ow, channels) if settings.pool else (0,), torch.uint8)
        out = map_room(n, channels, oh, ow)
        return {"out": out, "new_mean": statistic, "new_var": statistic, "saved": Room((4, channels)), "taps": taps}

    def keep(self, given: Tensors, settings: Settings) -> set[str]:
        is_linear = given["left"] is None and given["right"] is None
        return set(self.kept) - ({"shortcut"} if is_linear else set()) - (set() if settings.pool else {"taps", "out"})

    def gradient_rooms(self, given: Tensors, settings: Settings, wanted: set[str]) -> dict[str, Room]:  # noqa: ARG002
        maps, numbers = map_room(*given["x"].shape), Room((given["x"].shape[1],))
        makes = wanted | ({"x"} if "shortcut" in wanted else set())  # the shortcut's is made with that of x
        return {name: maps if name in ("x", "shortcut") else numbers for name in self.learned if name in makes}

    def native(self, given: Tensors, settings: Settings) -> Any:
        n, channels, h, w = given["x"].shape
        pool = Window(*settings.pool).told(h, w, channels) if settings.pool else None
        how: dict[str, Any] = {name: getattr(settings, name) for name in ("batch_stats", "eps", "momentum")}
        return core.training.Norm(n=n, h=h, w=w, channels=channels, pool=pool, **how)

    def plain(self, given: Tensors, settings: Settings) -> Tensors:
        x = given["x"]
        mean, variance = plain.moments(x) if settings.batch_stats else (given["running_mean"], given["running_var"])
        rate = 1 / (variance.double() + settings.eps).sqrt()
        gamma = 1.0 if given["gamma"] is None else given["gamma"].double()
        beta = torch.zeros_like(rate) if given["beta"] is None else given["beta"]
        saved = torch.stack([mean, gamma * rate, beta, rate]).float()
        z = self._z(given | {"saved": saved})
        taps = NOTHING._replace(dtype=torch.uint8).on(x.device)
        out = plain.activate(z, given)
        if settings.pool:
            out, taps = self._pool(z, settings)
        new_mean = new_var = NOTHING.on(x.device)
        if settings.batch_stats and given["running_mean"] is not None:
            new_mean, new_var = plain.running(given, mean, variance, settings.momentum, x.numel() // x.shape[1])
        return {"out": out, "new_mean": new_mean, "new_var": new_var, "saved": saved, "taps": taps}

    def _z(self, given: Tensors) -> Tensor:
        mean, scale, shift, _ = (row.view(1, -1, 1, 1) for row in given["saved"])
        z: Tensor = scale * (given["x"] - mean) + shift
        return z if given["shortcut"] is None else z + given["shortcut"]

    def _pool(self, z: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
        """The largest of every window, and which tap of the window it is."""
        window = Window(*settings.pool)
        n, channels, h, w = z.shape
        padded = F.pad(z, window.pads(h, w), value=-torch.inf)
        taps = F.unfold(padded, window.kernel, stride=window.stride).view(n, channels, -1, window.oh, window.ow)
        largest, place = taps.max(2)
        return largest, place.permute(0, 2, 3, 1).to(torch.uint8).contiguous()

    def plain_backward(self, given: Tensors, settings: Settings, wanted: set[str]) -> Tensors:
        found, made = self.plain_gradients(given, settings), self.gradient_rooms(given, settings, wanted)
        return {name: gradient for name, gradient in found.items() if name in made}

    def plain_gradients(self, given: Tensors, settings: Settings) -> Tensors:
        """All there are."""
        x, grad = given["x"], given["grad"]
        mean, scale, _, rate = (row.view(1, -1, 1, 1) for row in given["saved"])
        if settings.pool:
            grad = self._route(grad, given["taps"], settings, x.shape)
        found = plain.activate_backward(grad, self._z(given), given)
        dz, centered = found.pop("z"), x - mean
        found["beta"], found["gamma"] = plain.sum_positions(dz), plain.sum_positions(dz * centered * rate)
        dx = scale * dz
        if settings.batch_stats:
            sums = found["beta"].view(1, -1, 1, 1) + rate * centered * found["gamma"].view(1, -1, 1, 1)
            dx = dx - scale * sums / (x.numel() / x.shape[1])
        return found | {"x": dx, "shortcut": dz}

    def _route(self, grad: Tensor, taps: Tensor, settings: Settings, shape: torch.Size) -> Tensor:
        """A pool's gradient goes where its maximum came from."""
        window = Window(*settings.pool)
        n, channels, h, w = shape
        left, right, top, bottom = window.pads(h, w)
        spread = F.one_hot(taps.long().permute(0, 3, 1, 2), window.kernel[0] * window.kernel[1]) * grad.unsqueeze(-1)
        columns = spread.permute(0, 1, 4, 2, 3).reshape(n, channels * window.kernel[0] * window.kernel[1], -1)
        padded = F.fold(columns, (h + top + bottom, w + left + right), window.kernel, stride=window.stride)
        return padded[:, :, top : top + h, left : left + w]


NORM = NormOperation()


class Fusion(NamedTuple):
    """How a norm and what follows it are one operator: slopes or a max-pool, and what is left to be called behind."""

    slopes: Slopes | None
    pool: Window | None
    behind: nn.Module | None


def normalise(x: Tensor, norm: nn.Module, then: nn.Module | None, *, shortcut: Tensor | None = None) -> Tensor:
    """then(norm(x) + shortcut), natively where that can be."""
    if is_in_use() and is_map(x) and (shortcut is None or (is_map(shortcut) and shortcut.shape == x.shape)):
        fusion = fusion_of(norm, then, tuple(x.shape), has_shortcut=shortcut is not None)
        if fusion is not None:
            assert isinstance(norm, nn.BatchNorm2d)
            return run_fused(NORM, {"x": x, "shortcut": shortcut}, norm, fusion, x.numel() // x.shape[1])
    out: Tensor = norm(x) if shortcut is None else norm(x) + shortcut
    return out if then is None else then(out)


def bend(x: Tensor, act: nn.Module) -> Tensor:
    """act(x); where its slopes learn natively, as what follows a norm that changes nothing."""
    slopes = slopes_of(act, x.shape[1]) if is_in_use() and is_map(x) and _is_ours(act) else None
    if slopes is None or not _are_two(slopes) or not any(parameter.requires_grad for parameter in act.parameters()):
        out: Tensor = act(x)
        return out
    zeros = x.new_zeros(x.shape[1])
    given = {"x": x, "left": slopes.left, "right": slopes.right, "running_mean": zeros, "running_var": zeros + 1}
    bent: Tensor = NORM.run(given, Settings((), batch_stats=False, eps=0.0, momentum=0.0))["out"]
    return bent


def fusion_of(norm: nn.Module, then: nn.Module | None, shape: tuple[int, ...], *, has_shortcut: bool) -> Fusion | None:
    """Of a map of this shape; None if the norm is not the core's to compute."""
    if type(norm) is not nn.BatchNorm2d or norm.num_features != shape[1] or not _is_ours(norm):
        return None
    if not (is_dense(norm.running_mean) and is_dense(norm.running_var)) or (then is not None and is_watched(then)):
        return None
    if then is None or _is_ours(then):
        slopes = slopes_of(then, norm.num_features)
        if _are_two(slopes):
            return Fusion(slopes, None, None)
        if not has_shortcut and (pool := _pool_of(then, shape)) is not None:
            return Fusion(None, pool, None)
    return Fusion(None, None, then)


def _is_ours(layer: nn.Module) -> bool:
    return not is_watched(layer) and all(is_plain(tensor) for tensor in layer.parameters())


def _are_two(slopes: Slopes | None) -> bool:
    if slopes is None or slopes.before is not None or slopes.after is not None:
        return False
    return math.isinf(slopes.limit)


def _pool_of(pool: nn.Module | None, shape: tuple[int, ...]) -> Window | None:
    if type(pool) is not nn.MaxPool2d or pool.return_indices or pool.dilation not in (1, (1, 1)):
        return None
    window = window_of(shape, pool)
    return None if window is None or window.kernel[0] * window.kernel[1] > MOST_TAPS else window


def run_fused(
    operation: Operation,
    given: Tensors,
    norm: nn.BatchNorm2d,
    fusion: Fusion,
    positions: int,
    *,
    conv: tuple[int, ...] = (),
) -> Tensor:
    """The operation on what is given, the norm's parameters and the slopes."""
    batch_stats, running, eps, momentum = statistics(norm, positions)
    given = {**given, "gamma": norm.weight, "beta": norm.bias}
    if fusion.slopes is not None:
        given |= {"left": fusion.slopes.left, "right": fusion.slopes.right}
    if running is not None:
        given |= {"running_mean": running[0], "running_var": running[1]}
    made = operation.run(given, Settings(fusion.pool or (), batch_stats, eps, momentum, conv))
    if running is not None and batch_stats:
        running[0].copy_(made["new_mean"])
        running[1].copy_(made["new_var"])
    out: Tensor = made["out"]
    return out if fusion.behind is None else fusion.behind(out)
