"""BatchNorm with what follows it, a shortcut, a non-linearity or a max-pool, as one operator.

    z = gamma * (x - mean) / sqrt(var + eps) + beta + shortcut,    out = slope * z, or the largest z of every window

It keeps its input and the shortcut for backward, and of a pool one byte per output; never the normalised map.
"""

import math
from typing import Any, NamedTuple

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
    """`pool` is kernel, stride and padding of a max-pool, each of height and width, and the size it gives; or empty."""

    pool: tuple[int, ...]
    batch_stats: bool
    eps: float
    momentum: float


class _NormOperation(Operation):
    name = "norm"
    settings = Settings
    required = ("x",)
    optional = ("shortcut", "gamma", "beta", "left", "right", "running_mean", "running_var")
    learned = ("x", "shortcut", "gamma", "beta", "left", "right")
    results = ("out", "new_mean", "new_var", "saved", "taps")
    kept = ("x", "shortcut", "gamma", "beta", "left", "right", "saved", "taps")

    def rooms(self, given: Tensors, settings: Settings) -> dict[str, Room]:
        n, channels, h, w = given["x"].shape
        oh, ow = settings.pool[6:] or (h, w)
        statistic = Room((channels,)) if settings.batch_stats and given["running_mean"] is not None else NOTHING
        taps = Room((n, oh, ow, channels) if settings.pool else (0,), torch.uint8)
        out = map_room(n, channels, oh, ow)
        return {"out": out, "new_mean": statistic, "new_var": statistic, "saved": Room((4, channels)), "taps": taps}

    def keep(self, given: Tensors, settings: Settings) -> set[str]:
        is_linear = given["left"] is None and given["right"] is None
        return set(self.kept) - ({"shortcut"} if is_linear else set()) - (set() if settings.pool else {"taps"})

    def gradient_rooms(self, given: Tensors, settings: Settings, wanted: set[str]) -> dict[str, Room]:  # noqa: ARG002
        maps, numbers = map_room(*given["x"].shape), Room((given["x"].shape[1],))
        makes = wanted | ({"x"} if "shortcut" in wanted else set())  # the shortcut's is made with that of x
        return {name: maps if name in ("x", "shortcut") else numbers for name in self.learned if name in makes}

    def native(self, given: Tensors, settings: Settings) -> Any:
        n, channels, h, w = given["x"].shape
        pool = Window(*settings.pool).told(h, w, channels) if settings.pool else None
        told = {name: value for name, value in settings._asdict().items() if name != "pool"}
        return core.training.Norm(n=n, h=h, w=w, channels=channels, pool=pool, **told)

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
        found |= {"x": dx, "shortcut": dz}
        made = self.gradient_rooms(given, settings, wanted)
        return {name: gradient for name, gradient in found.items() if name in made}

    def _route(self, grad: Tensor, taps: Tensor, settings: Settings, shape: torch.Size) -> Tensor:
        """A pool's gradient goes where its maximum came from."""
        window = Window(*settings.pool)
        n, channels, h, w = shape
        left, right, top, bottom = window.pads(h, w)
        spread = F.one_hot(taps.long().permute(0, 3, 1, 2), window.kernel[0] * window.kernel[1]) * grad.unsqueeze(-1)
        columns = spread.permute(0, 1, 4, 2, 3).reshape(n, channels * window.kernel[0] * window.kernel[1], -1)
        padded = F.fold(columns, (h + top + bottom, w + left + right), window.kernel, stride=window.stride)
        return padded[:, :, top : top + h, left : left + w]


NORM = _NormOperation()


def normalise(x: Tensor, norm: nn.Module, then: nn.Module | None, *, shortcut: Tensor | None = None) -> Tensor:
    """then(norm(x) + shortcut), natively where that can be."""
    if is_in_use() and is_map(x) and type(norm) is nn.BatchNorm2d and norm.num_features == x.shape[1]:
        slopes = slopes_of(then, norm.num_features)
        pool = _pool_of(x, then) if shortcut is None else None
        if _can_fuse(norm, then, shortcut, x) and (pool is not None or _are_two(slopes)):
            return _run(x, norm, slopes if pool is None else None, pool, shortcut)
        if then is not None and not is_watched(then) and _can_fuse(norm, None, shortcut, x):
            behind: Tensor = then(_run(x, norm, None, None, shortcut))
            return behind
    out: Tensor = norm(x) if shortcut is None else norm(x) + shortcut
    return out if then is None else then(out)


def _are_two(slopes: Slopes | None) -> bool:
    if slopes is None or slopes.before is not None or slopes.after is not None:
        return False
    return math.isinf(slopes.limit)


def _can_fuse(norm: nn.BatchNorm2d, then: nn.Module | None, shortcut: Tensor | None, x: Tensor) -> bool:
    layers = (norm,) if then is None else (norm, then)
    return (
        (shortcut is None or (is_map(shortcut) and shortcut.shape == x.shape))
        and all(is_plain(tensor) for layer in layers for tensor in layer.parameters())
        and is_dense(norm.running_mean)
        and is_dense(norm.running_var)
        and not any(is_watched(layer) for layer in layers)
    )


def _pool_of(x: Tensor, pool: nn.Module | None) -> Window | None:
    if type(pool) is not nn.MaxPool2d or pool.return_indices or pool.dilation not in (1, (1, 1)):
        return None
    window = window_of(x, pool)
    return None if window is None or window.kernel[0] * window.kernel[1] > MOST_TAPS else window


def _run(
    x: Tensor, norm: nn.BatchNorm2d, slopes: Slopes | None, pool: Window | None, shortcut: Tensor | None
) -> Tensor:
    batch_stats, running, eps, momentum = statistics(norm, x.numel() // x.shape[1])
    given: Tensors = {"x": x, "shortcut": shortcut, "gamma": norm.weight, "beta": norm.bias}
    if slopes is not None:
        given |= {"left": slopes.left, "right": slopes.right}
    if running is not None:
        given |= {"running_mean": running[0], "running_var": running[1]}
    made = NORM.run(given, Settings(pool or (), batch_stats, eps, momentum))
    if running is not None and batch_stats:
        running[0].copy_(made["new_mean"])
        running[1].copy_(made["new_var"])
    out: Tensor = made["out"]
    return out
