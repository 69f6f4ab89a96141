"""Counts a module's work by running it on the meta device: real shapes, no numbers, no memory.

Every operator that runs has a cost in `ops.py`, or is named as uncounted, never taken for zero. What does not depend on
the input is a constant of deployment and costs nothing. A convolution is binary if a sign made both its operands.

    budget = FLOPs + BOPs / 64

A product with a rounded weight is a FLOP like any other: the paper has a price for bits alone. What rounding saves are
bytes, and the share of a parameter that its bits are of 32.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, SupportsIndex

import torch
from torch import Tensor, nn

from ftbnn.budget import ops
from ftbnn.errors import UserError, first_line, unknown
from ftbnn.nn.layer import check_network, layers
from ftbnn.tracing import Call, Recorder, map_tensors, tensors_in

BITS_PER_WORD = 64  # binary multiply-accumulates that cost as much as one FLOP
FP32_BYTES = 4
UNIT_BITS = 32  # of a row of rounded weights

Precision = Literal["fp64", "fp32", "fp16", "bf16", "int8", "int16", "+-1", "0/1", "none"]
_DTYPE_PRECISION: dict[torch.dtype, Precision] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}


_INTEGERS: dict[int, Precision] = {8: "int8", 16: "int16"}


class ImageTooSmall(UserError):
    """The input has nothing left to halve where a layer would halve it."""


class UncountedWarning(UserWarning):
    """Something in the network could not be counted."""


@dataclass(frozen=True)
class Convention:
    """What counts. `elementwise`: one operation per element of BatchNorm, non-linearities and pools.
    `doubled`: the paper's price for the AND form, twice the BOPs where the input is coded {0, 1}."""

    name: str
    elementwise: bool
    doubled: bool


PAPER = Convention("paper", elementwise=True, doubled=True)
CONVENTIONS = {"paper": PAPER, "conv-only": Convention("conv-only", elementwise=False, doubled=False)}


def convention(name: str) -> Convention:
    if name not in CONVENTIONS:
        raise unknown("convention", name, CONVENTIONS)
    return CONVENTIONS[name]


@dataclass
class LayerCount:
    """One layer's share. `macs`, `elements` and `binary_macs` are raw; a convention turns them into FLOPs and BOPs."""

    path: str
    kind: str
    weight_precision: Precision = "none"
    input_precision: Precision = "none"
    input_shape: tuple[int, ...] = ()
    output_shape: tuple[int, ...] = ()
    groups: int = 1
    macs: int = 0
    elements: int = 0
    binary_macs: int = 0
    zero_one_macs: int = 0  # of those, on codes {0, 1}
    real_params: int = 0
    binary_params: int = 0
    rounded_params: int = 0
    rounded_bits: int = 0  # of those and of their units
    state: int = 0  # real numbers kept beside the parameters: BatchNorm's running statistics
    calls: int = 0

    @property
    def zero_one(self) -> bool:
        return self.zero_one_macs > 0

    def flops(self, rule: Convention) -> int:
        return self.macs + (self.elements if rule.elementwise else 0)

    def bops(self, rule: Convention) -> int:
        return self.binary_macs + (self.zero_one_macs if rule.doubled else 0)

    @property
    def packed_bytes(self) -> int:
        """One bit per binary weight, whole bytes per layer, integers and their units, and fp32 for the rest; BatchNorm
        folded to two numbers."""
        return FP32_BYTES * self.real_params + -(-self.binary_params // 8) + self.rounded_bits // 8

    @property
    def fp32_bytes(self) -> int:
        return FP32_BYTES * (self.params + self.state)

    @property
    def params(self) -> int:
        """How many, of any kind."""
        return self.real_params + self.binary_params + self.rounded_params


@dataclass(frozen=True, repr=False)
class Budget:
    """The cost of a network for one input, layer by layer and in all."""

    layers: tuple[LayerCount, ...]
    uncounted: tuple[str, ...]  # "path: reason", one for each thing that is missing from the sums
    input_shape: tuple[int, ...]
    rule: Convention = PAPER

    def __repr__(self) -> str:
        """The sums alone; `ftbnn.summary` has the layers."""
        shape = "x".join(map(str, self.input_shape))
        parts = f"FLOPs {self.flops / 1e6:.3f} M + BOPs {self.bops / 1e6:.3f} M / 64 = {self.budget / 1e6:.3f} M"
        return f"Budget({parts}, {self.params / 1e6:.4f} M params, {len(self.layers)} layers, input {shape})"

    def under(self, rule: Convention) -> "Budget":
        """The same network counted by another convention."""
        return replace(self, rule=rule)

    @property
    def flops(self) -> int:
        return sum(layer.flops(self.rule) for layer in self.layers)

    @property
    def bops(self) -> int:
        return sum(layer.bops(self.rule) for layer in self.layers)

    @property
    def budget(self) -> float:
        return self.flops + self.bops / BITS_PER_WORD

    @property
    def params(self) -> float:
        """Real parameters plus binary ones at 1/32, and rounded ones at their bits' share of 32."""
        return sum(layer.real_params + (layer.binary_params + layer.rounded_bits) / 32 for layer in self.layers)

    @property
    def binary_share(self) -> float:
        """The part of the budget that is binary work, 0 to 1."""
        return self.bops / BITS_PER_WORD / self.budget if self.budget else 0.0

    @property
    def packed_bytes(self) -> int:
        return sum(layer.packed_bytes for layer in self.layers)

    @property
    def fp32_bytes(self) -> int:
        return sum(layer.fp32_bytes for layer in self.layers)


def _precision(dtype: torch.dtype) -> Precision:
    return _DTYPE_PRECISION.get(dtype, "none")


@dataclass
class _Counter:
    """Books each call on the layer it happened in."""

    rows: dict[str, LayerCount] = field(default_factory=dict)
    uncounted: dict[str, None] = field(default_factory=dict)
    codes: dict[int, Precision] = field(default_factory=dict)  # of tensors, by id
    rounded: dict[int, Precision] = field(default_factory=dict)  # of weights, by id

    def count(self, call: Call) -> None:
        inputs, results = list(tensors_in((call.args, call.kwargs))), list(tensors_in(call.result))
        if call.name == "ftbnn::sign":
            self.codes[id(call.result)] = "0/1" if call.args[2] else "+-1"
            return
        if call.name == "ftbnn::rounded":
            self.rounded[id(call.result)] = _INTEGERS[call.args[1]]
            return
        self._carry_codes(call, inputs, results)
        if not call.depends or call.name in ops.MOVES or call.name in ops.FREE:
            return
        _check_stride(call)
        if call.name in ops.MACS:
            self._count_product(call, results[0])
        elif call.name in ops.ELEMENTWISE:
            self._book(call, inputs[0], results[0]).elements += results[0].numel()
        elif call.name in ops.REDUCTIONS:
            self._book(call, inputs[0], results[0]).elements += inputs[0].numel()
        else:
            self._miss(call, f"no rule for the operator {call.spoken}")

    def _carry_codes(self, call: Call, inputs: list[Tensor], results: list[Tensor]) -> None:
        """Codes that are only moved stay codes, and so do a constant's that are scaled channel by channel."""
        if call.name in ops.MOVES or call.name == "max_pool2d_with_indices":
            codes = {self.codes.get(id(x)) for x in inputs if x.is_floating_point()}
        elif call.name in ("mul", "div") and not call.depends and inputs:
            codes = {self.codes.get(id(inputs[0]))}
        else:
            return
        if len(codes) == 1 and (code := codes.pop()) is not None:
            self.codes |= {id(result): code for result in results}

    def _count_product(self, call: Call, out: Tensor) -> None:
        at = ops.FIRST_FACTOR.get(call.name, 0)
        x, weight = call.args[at], call.args[at + 1]
        macs = ops.MACS[call.name](call.args, out)
        row = self._book(call, x, out)
        row.groups = ops.groups(call.name, call.args)
        is_binary = id(weight) in self.codes
        real = self.rounded.get(id(weight), _precision(weight.dtype))
        row.weight_precision = "+-1" if is_binary else real
        if is_binary and id(x) in self.codes:
            row.binary_macs += macs
            row.zero_one_macs += macs if self.codes[id(x)] == "0/1" else 0
            return
        row.macs += macs
        if is_binary and not getattr(call.place.module, "reads_real", False):
            self._miss(call, "binary weights on an input that no Sign made binary are counted as real work")

    def _book(self, call: Call, x: Tensor, out: Tensor) -> LayerCount:
        path = call.label
        kind = type(call.place.module).__name__ if path == call.place.path else call.spoken
        row = self.rows.setdefault(path, LayerCount(path, kind))
        row.calls += 1
        row.input_shape, row.output_shape = tuple(x.shape), tuple(out.shape)
        if row.calls == 1 or call.name in ops.MACS:  # of a layer of several steps its products are what it is
            row.input_precision = self.codes.get(id(x), _precision(x.dtype))
        return row

    def _miss(self, call: Call, what: str) -> None:
        self.uncounted[f"{call.place.path or 'the network'}: {what}"] = None


def _check_stride(call: Call) -> None:
    for extent, step in ops.strides(call.name, call.args):
        if extent < step:
            left = "x".join(map(str, call.args[0].shape[2:]))
            raise ImageTooSmall(
                f"the image is too small: {call.place.path} has stride {step} and is left with a map of {left}"
            )


def _count_params(module: nn.Module, counter: _Counter, on_meta: Mapping[str, Tensor], used: set[int]) -> None:
    """Books parameters and running statistics on the module that owns them, each once however often it is shared."""
    seen: set[int] = set()
    binary = {id(parameter) for _, layer in layers(module) for parameter in layer.binary_parameters()}
    rounded = {id(p): bits for _, layer in layers(module) for p, bits in layer.rounded_parameters().items()}
    for path, child in module.named_modules():
        own = {name: p for name, p in child.named_parameters(path, recurse=False) if id(p) not in seen}
        seen.update(id(p) for p in own.values())
        buffers = [b for b in child.buffers(recurse=False) if b.is_floating_point()]
        if not own and not buffers:
            continue
        row = counter.rows.setdefault(path, LayerCount(path, type(child).__name__))
        for p in own.values():
            if id(p) in binary:
                row.binary_params += p.numel()
            elif id(p) in rounded:
                row.rounded_params += p.numel()
                row.rounded_bits += rounded[id(p)] * p.numel() + UNIT_BITS * len(p)
            else:
                row.real_params += p.numel()
        row.state += sum(b.numel() for b in buffers)
        if own and row.weight_precision == "none":
            first = next(iter(own.values()))
            row.weight_precision = "+-1" if id(first) in binary else _precision(first.dtype)
        for name in own:
            if id(on_meta[name]) not in used:
                counter.uncounted[f"{name}: counted as a parameter, but forward never uses it"] = None


def count(module: nn.Module, input_shape: Sequence[int], *, rule: Convention = PAPER) -> Budget:
    """The cost of `module` for one input of `input_shape` = (channels, height, width).

    The module is left as it was, on whatever device it is. Raises UserError if it does not run on that shape.
    """
    check_network(module, "count")
    if not isinstance(input_shape, Iterable) or not all(isinstance(size, SupportsIndex) for size in input_shape):
        raise UserError(f"input_shape is (channels, height, width), as (3, 224, 224), not {input_shape!r}")
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    on_meta = {name: _to_meta(tensor).requires_grad_(tensor.requires_grad) for name, tensor in state.items()}
    dtype = next((t.dtype for t in state.values() if t.is_floating_point()), torch.float32)
    x = torch.empty(1, *input_shape, dtype=dtype, device="meta")
    recorder = _MetaRecorder(module, x, shapes=ops.shape_only)
    try:
        with recorder.watching(module):
            torch.func.functional_call(module, on_meta, (x,))
        counter = _Counter()
        for call in recorder.calls:
            counter.count(call)
    except UserError:
        raise
    except Exception as error:  # whatever a user's forward may raise on tensors without numbers
        shape = "x".join(map(str, input_shape))
        where = recorder.place.path or "the network"
        raise UserError(f"{where} does not run on an input of {shape}: {first_line(error)}") from error
    used = {id(tensor) for call in recorder.calls for tensor in tensors_in((call.args, call.kwargs))}
    _count_params(module, counter, on_meta, used)
    order = {path: index for index, (path, _) in enumerate(module.named_modules())}
    rows = sorted(counter.rows.values(), key=lambda row: order[row.path.partition(":")[0]])
    for line in counter.uncounted:
        warnings.warn(line, UncountedWarning, stacklevel=2)
    return Budget(tuple(rows), tuple(counter.uncounted), tuple(input_shape), rule)


def _to_meta(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_meta else torch.empty_like(tensor, device="meta")


class _MetaRecorder(Recorder):  # type: ignore[no-untyped-call]
    """Takes along constants that a forward makes on another device, as torch.tensor does."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(tensor.is_meta for tensor in tensors_in((args, kwargs or {}))):
            args, kwargs = map_tensors(args, _to_meta), map_tensors(kwargs or {}, _to_meta)
        return super().__torch_dispatch__(func, types, args, kwargs)
