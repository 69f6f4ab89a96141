"""The cost of PyTorch's own operators, by the name they have in ATen.

A network's forward arrives here as ATen operators whether it was written with nn modules, with functions or with
plain arithmetic, so nothing slips by for being written in another style. An operator is work (multiply-accumulates
or one operation per element), free (it moves data, or the paper does not count it), or unknown and reported.
In-place operators stand under their plain names.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# Moves data or makes constants: no arithmetic. A binary code stays one.
MOVES = frozenset(
    "alias cat chunk clone contiguous copy detach expand flatten index_select lift_fresh narrow permute "
    "pixel_shuffle pixel_unshuffle repeat reshape select slice split split_with_sizes squeeze stack t to _to_copy "
    "transpose unbind unflatten unsafe_split unsafe_view _unsafe_view unsqueeze view view_as channel_shuffle "
    "native_channel_shuffle".split()
)
# Not counted by the paper: additions (of shortcuts, thresholds), the global average, constants, and dropout, which
# deployment drops.
FREE = frozenset(
    "add sub rsub mean _adaptive_avg_pool2d adaptive_avg_pool2d empty zeros ones full empty_like zeros_like ones_like "
    "full_like arange scalar_tensor dropout native_dropout constant_pad_nd".split()
)
# One operation per element of the result.
ELEMENTWISE = frozenset(
    "abs ceil clamp clamp_min clamp_max cos div elu eq erf exp floor ge gelu gt hardsigmoid "
    "hardswish hardtanh le leaky_relu log log1p lt maximum minimum "
    "mish mul ne neg pow _prelu_kernel reciprocal relu round rsqrt sgn sigmoid sign silu "
    "ftbnn::fprelu ftbnn::steps sin softplus sqrt square tanh threshold where _softmax _safe_softmax _log_softmax "
    "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training _batch_norm_with_update "
    "cudnn_batch_norm native_layer_norm native_group_norm logical_and logical_or logical_not bitwise_and "
    "bitwise_or bitwise_not avg_pool2d upsample_nearest2d upsample_bilinear2d".split()
)
# One operation per element of the input.
REDUCTIONS = frozenset("amax amin max max_pool2d_with_indices min norm prod std sum var argmax argmin".split())

_BATCH_NORMS = frozenset("native_batch_norm _native_batch_norm_legit_no_training".split())
_COMPARISONS = frozenset("eq ge gt le lt ne".split())
_POINTWISE = frozenset(
    "abs add addcmul clamp clamp_min clamp_max div elu exp gelu hardsigmoid hardswish hardtanh leaky_relu mish mul "
    "neg relu sigmoid sign silu sub tanh where".split()
)


def shape_only(name: str, args: Sequence[Any]) -> Any:
    """The result of a common operator on meta tensors, or None where PyTorch has to be asked.

    Asking gives the same answer but takes milliseconds a call and, the first time, loads PyTorch's compiler (1 s).
    """
    x: Any = args[0] if args else None
    if name in ("ftbnn::sign", "ftbnn::fprelu", "ftbnn::rounded", "ftbnn::steps"):
        return torch.empty_like(x)
    if name in _BATCH_NORMS:
        return torch.empty_like(x), x.new_empty(0), x.new_empty(0)
    if name == "addmm" and args[1].shape[1] == args[2].shape[0]:
        return x.new_empty(args[1].shape[0], args[2].shape[1])
    if name == "mean" and len(args) == 3 and args[2]:
        dims = {dim % x.dim() for dim in args[1]}
        return x.new_empty([1 if dim in dims else size for dim, size in enumerate(x.shape)])
    return _pointwise(name, [arg for arg in args if isinstance(arg, Tensor)])


def _pointwise(name: str, tensors: Sequence[Tensor]) -> Tensor | None:
    plain = name.removesuffix("_")
    if plain not in _POINTWISE and plain not in _COMPARISONS:
        return None
    numbers = [t for t in tensors if t.dtype != torch.bool]
    dtypes = {t.dtype for t in numbers if t.dim() > 0} or {t.dtype for t in numbers}
    if len(dtypes) != 1 or not (dtype := dtypes.pop()).is_floating_point:
        return None  # promotion between types is PyTorch's business
    if plain != name:
        return tensors[0]
    shape = torch.broadcast_shapes(*(t.shape for t in tensors))  # type: ignore[no-untyped-call]
    return torch.empty(shape, dtype=torch.bool if plain in _COMPARISONS else dtype, device="meta")


def _bconv(args: Sequence[Any], out: Tensor) -> int:
    weights = args[1].numel() + (0 if args[2] is None else args[2].numel())
    return int(out.numel() // out.shape[1] * weights)


def _convolution(args: Sequence[Any], out: Tensor) -> int:
    weight, bias = args[1], args[2]
    transposed = bool(args[6])
    positions = args[0].numel() // args[0].shape[1] if transposed else out.numel() // out.shape[1]
    # Every weight is used once per position of the smaller side.
    return int(positions * weight.numel() + (0 if bias is None else out.numel()))


def _addmm(args: Sequence[Any], out: Tensor) -> int:
    return int(out.numel() * args[1].shape[1] + out.numel())


def _mm(args: Sequence[Any], out: Tensor) -> int:
    return int(out.numel() * args[0].shape[-1])


def _baddbmm(args: Sequence[Any], out: Tensor) -> int:
    return int(out.numel() * args[1].shape[-1] + out.numel())


def _attention(args: Sequence[Any], out: Tensor) -> int:
    query, key = args[0], args[1]
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    return int(scores * (query.shape[-1] + out.shape[-1]))


# Multiply-accumulates, given the operator's arguments and its result.
MACS: dict[str, Callable[[Sequence[Any], Tensor], int]] = {
    "ftbnn::bconv": _bconv,
    "convolution": _convolution,
    "addmm": _addmm,
    "mm": _mm,
    "bmm": _mm,
    "baddbmm": _baddbmm,
    "mv": _mm,
    "dot": lambda args, _: int(args[0].numel()),
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_attention_math": _attention,
    "scaled_dot_product_attention": _attention,
}

FIRST_FACTOR = {"addmm": 1, "baddbmm": 1}  # the first argument of these is the bias
_STRIDE = {"convolution": 3, "ftbnn::bconv": 3, "avg_pool2d": 2, "max_pool2d_with_indices": 2}  # where it stands
_GROUPS = {"convolution": 8, "ftbnn::bconv": 6}


def groups(name: str, args: Sequence[Any]) -> int:
    return int(args[_GROUPS[name]]) if name in _GROUPS else 1


def strides(name: str, args: Sequence[Any]) -> list[tuple[int, int]]:
    """(extent of the map, stride) of each dimension of an operator that takes steps."""
    at = _STRIDE.get(name)
    if at is None or len(args) <= at or (name == "convolution" and args[6]):  # transposed: its stride makes room
        return []
    return list(zip(args[0].shape[-len(args[at]) :], args[at], strict=True))
