"""Pools and averages. The result's shape says how far the windows run, so ceil_mode needs no rule of its own."""

import numpy as np

from ftbnn.packing.graph import AverageTo, AvgPool, Linear, MaxPool, Value
from ftbnn.packing.moves import Feature
from ftbnn.packing.step import Step, pair


def max_pool(step: Step) -> Feature:
    if pair(step["dilation"]) != (1, 1):
        raise step.error(f"has dilation {pair(step['dilation'])}")
    x = step["self"]
    value = step.read(x, takes_codes=True)  # the largest code is the code of the largest
    window = step.window(step["kernel_size"], step["stride"] or step["kernel_size"], step["padding"])
    return step.emit(MaxPool(step.path, (value,), step.result(), window=window), code=x.code)


def avg_pool(step: Step) -> Feature:
    value, output, divisor = step.read(step["self"]), step.result(), step["divisor_override"]
    kernel, padding, counts_pad = pair(step["kernel_size"]), pair(step["padding"]), step["count_include_pad"]
    sides, counts = (value.height, value.width), (output.height, output.width)
    if counts == (1, 1) and kernel == sides and padding == (0, 0) and divisor is None:
        return step.emit(AverageTo(step.path, (value,), output))
    window = step.window(kernel, step["stride"] or kernel, padding)
    # PyTorch divides by the part of the window inside the *padded* image; ceil_mode lets windows hang out of that.
    hangs_out = any(
        (count - 1) * stride + size > side + 2 * before
        for count, stride, size, side, before in zip(
            counts, window.stride, window.kernel, sides, window.padding, strict=True
        )
    )
    whole = counts_pad and not hangs_out
    if divisor is not None:
        whole = True
        if divisor != window.kernel[0] * window.kernel[1]:
            raise step.error(f"divides by {divisor}, which is not the size of its window")
    elif counts_pad and hangs_out and window.padding != (0, 0):
        raise step.error("pads and has ceil_mode: its divisor is neither the window nor the window's part inside")
    return step.emit(AvgPool(step.path, (value,), output, window=window, whole=whole))


def adaptive_avg_pool(step: Step) -> Feature:
    return step.emit(AverageTo(step.path, (step.read(step["self"]),), step.result()))


def mean(step: Step) -> Feature:
    x = step["self"]
    dims = {dim % 4 for dim in step.arguments.get("dim") or ()}
    if len(x.shape) != 4 or dims not in ({2, 3}, {1, 2, 3}) or (1 in dims and len(step.shape) != 4):
        raise step.error(
            f"takes a mean over the dimensions {sorted(dims)}; only one over (2, 3) of a map, or over all of an image "
            "that keeps its dimensions, can be exported"
        )
    if 1 not in dims:
        return step.emit(AverageTo(step.path, (step.read(x),), step.result()))
    channels = x.shape[1]
    means = step.write(AverageTo(step.path, (step.read(x),), Value(channels, 1, 1)))
    return step.emit(Linear(step.path, (means,), step.result(), weight=np.full((1, channels), 1 / channels)))
