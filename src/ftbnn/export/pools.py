"""Pools and averages. The result's shape says how far the windows run, so ceil_mode needs no rule of its own."""

from typing import Any

from ftbnn.export.call import Call, Pair, pair
from ftbnn.export.graph import AverageTo, AvgPool, MaxPool
from ftbnn.export.moves import Feature


def max_pool2d(  # noqa: PLR0917 - PyTorch's signature
    call: Call,
    input: Feature,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,  # noqa: ARG001
    return_indices: bool = False,  # noqa: ARG001
) -> Feature:
    if pair(dilation) != (1, 1):
        raise call.error(f"dilation {pair(dilation)} is not supported")
    value = call.read(input, takes_codes=True)  # the largest code is the code of the largest
    window = call.window(kernel_size, stride or kernel_size, padding)
    return call.emit(MaxPool(call.path, (value,), call.result(), window=window), code=input.code)


def avg_pool2d(  # noqa: PLR0917 - PyTorch's signature
    call: Call,
    input: Feature,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,  # noqa: ARG001
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Feature:
    value, output = call.read(input), call.result()
    sides, counts = (value.height, value.width), (output.height, output.width)
    if counts == (1, 1) and pair(kernel_size) == sides and pair(padding) == (0, 0) and divisor_override is None:
        return call.emit(AverageTo(call.path, (value,), output))
    window = call.window(kernel_size, stride or kernel_size, padding)
    # PyTorch divides by the part of the window inside the *padded* image; ceil_mode lets windows hang out of that.
    hangs_out = any(
        (count - 1) * step + size > side + 2 * before
        for count, step, size, side, before in zip(
            counts, window.stride, window.kernel, sides, window.padding, strict=True
        )
    )
    whole = count_include_pad and not hangs_out
    if divisor_override is not None:
        whole = True
        if divisor_override != window.kernel[0] * window.kernel[1]:
            raise call.error(f"divides by {divisor_override}, which is not the size of its window")
    elif count_include_pad and hangs_out and window.padding != (0, 0):
        raise call.error("pads and has ceil_mode: its divisor is neither the window nor the window's part inside")
    return call.emit(AvgPool(call.path, (value,), output, window=window, whole=whole))


def adaptive_avg_pool2d(call: Call, input: Feature, output_size: Any) -> Feature:  # noqa: ARG001
    return call.emit(AverageTo(call.path, (call.read(input),), call.result()))


def mean(call: Call, input: Feature, dim: Any = None, keepdim: bool = False) -> Feature:  # noqa: ARG001
    dims = {d % 4 for d in ([dim] if isinstance(dim, int) else dim or ())}
    if len(input.shape) != 4 or dims != {2, 3}:
        raise call.error(f"a mean over the dimensions {dim} is not supported; only over (2, 3) of a map")
    return call.emit(AverageTo(call.path, (call.read(input),), call.result()))
