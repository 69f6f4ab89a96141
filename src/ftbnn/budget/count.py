"""Counts a module's work by running it on the meta device: real shapes, no numbers, no memory.

Two kinds of things are seen: our layers (Sign, BConv, FPReLU), which know their own cost, and every ATen operator
that runs outside them, whose cost stands in `ops.py`. What is neither is named, never taken for zero.

    budget = FLOPs + BOPs / 64
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ftbnn.budget import ops
from ftbnn.errors import UserError, unknown
from ftbnn.nn import BConv, FPReLU, Sign

BITS_PER_WORD = 64  # binary multiply-accumulates that cost as much as one FLOP
FP32_BYTES = 4

Precision = Literal["fp64", "fp32", "fp16", "bf16", "+-1", "0/1", "none"]
_DTYPE_PRECISION: dict[torch.dtype, Precision] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}


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
    real_params: int = 0
    binary_params: int = 0
    state: int = 0  # real numbers kept beside the parameters: BatchNorm's running statistics
    calls: int = 0

    @property
    def zero_one(self) -> bool:
        return self.binary_macs > 0 and self.input_precision == "0/1"

    def flops(self, rule: Convention) -> int:
        return self.macs + (self.elements if rule.elementwise else 0)

    def bops(self, rule: Convention) -> int:
        return self.binary_macs * (2 if rule.doubled and self.zero_one else 1)

    @property
    def packed_bytes(self) -> int:
        """One bit per binary weight, whole bytes per layer, and fp32 for the rest; BatchNorm folded to two numbers."""
        return FP32_BYTES * self.real_params + -(-self.binary_params // 8)

    @property
    def fp32_bytes(self) -> int:
        return FP32_BYTES * (self.real_params + self.binary_params + self.state)


@dataclass(frozen=True)
class Budget:
    """The cost of a network for one input, layer by layer and in all."""

    layers: tuple[LayerCount, ...]
    uncounted: tuple[str, ...]  # "path: reason", one for each thing that is missing from the sums
    input_shape: tuple[int, ...]
    rule: Convention = PAPER

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
        """Real parameters plus binary ones at 1/32."""
        return sum(layer.real_params + layer.binary_params / 32 for layer in self.layers)

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


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _tensors(item)


@dataclass
class _Frame:
    path: str
    module: nn.Module


@dataclass
class _Walk(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches one forward pass and books each operation on the module it happens in."""

    rows: dict[str, LayerCount] = field(default_factory=dict)
    uncounted: dict[str, None] = field(default_factory=dict)
    frames: list[_Frame] = field(default_factory=list)
    own_depth: int = 0  # how many of our layers are being run: what happens inside is theirs to count
    touched: set[int] = field(default_factory=set)  # ids of all tensors that an operator has read
    codes: dict[int, Precision] = field(default_factory=dict)
    alive: list[Tensor] = field(default_factory=list)  # keeps the ids in `codes` from being used again

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Asked by torch: True, the default, would load its compiler (1 s) only to switch it off here."""
        return False

    def enter(self, path: str, module: nn.Module) -> None:
        self.frames.append(_Frame(path, module))
        self.own_depth += isinstance(module, Sign | BConv | FPReLU)

    def leave(self, module: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        if isinstance(module, Sign | BConv | FPReLU):
            self.own_depth -= 1
            if self.own_depth == 0:
                self._count_own(module, args[0], out)
        self.frames.pop()

    def row(self, kind: str | None = None) -> LayerCount:
        """The current module's row; arithmetic written in the forward of a module with children has its own."""
        frame = self.frames[-1]
        has_children = next(frame.module.children(), None) is not None
        key = f"{frame.path}:{kind}" if has_children and kind else frame.path
        name = kind if has_children and kind else type(frame.module).__name__
        return self.rows.setdefault(key, LayerCount(key, name))

    def input_code(self, x: Tensor) -> Precision:
        return self.codes.get(id(x), _precision(x.dtype))

    def tag(self, out: Tensor, code: Precision) -> None:
        self.codes[id(out)] = code
        self.alive.append(out)

    def _count_own(self, module: Sign | BConv | FPReLU, x: Tensor, out: Tensor) -> None:
        if isinstance(module, Sign):
            if module.mode == "sign":
                self.tag(out, "0/1" if module.zero_one else "+-1")
            elif module.mode == "tanh":
                self._book(x, out, elements=out.numel())
            return
        if isinstance(module, FPReLU):
            self._book(x, out, elements=out.numel(), weight=module.left)
            return
        self._check_stride(x, module.stride)
        positions = out.numel() // out.shape[1]
        macs = positions * sum(module.proxies(part).numel() for part in module.parts)
        row = self.row()
        row.groups = module.groups
        code = self.input_code(x)
        if module.mode == "binary" and code in ("+-1", "0/1"):
            self._book(x, out, binary_macs=macs)
        else:
            self._book(x, out, macs=macs)
        row.weight_precision = "+-1" if module.mode == "binary" else _precision(module.proxies(module.parts[0]).dtype)

    def _book(
        self,
        x: Tensor | None,
        out: Tensor,
        *,
        macs: int = 0,
        elements: int = 0,
        binary_macs: int = 0,
        weight: Tensor | None = None,
        kind: str | None = None,
    ) -> LayerCount:
        row = self.row(kind)
        row.calls += 1
        row.macs += macs
        row.elements += elements
        row.binary_macs += binary_macs
        row.output_shape = tuple(out.shape)
        if x is not None:
            row.input_shape = tuple(x.shape)
            row.input_precision = self.input_code(x)
        if weight is not None:
            row.weight_precision = _precision(weight.dtype)
        return row

    def _check_stride(self, x: Tensor, stride: Sequence[int]) -> None:
        for extent, step in zip(x.shape[-len(stride) :], stride, strict=True):
            if extent < step:
                raise ImageTooSmall(
                    f"the image is too small: {self.frames[-1].path} has stride {step} "
                    f"and is left with a map of {'x'.join(map(str, x.shape[2:]))}"
                )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        self.touched.update(id(x) for x in _tensors(args))
        out = ops.shape_only(name, args)
        if out is None:
            out = func(*args, **(kwargs or {}))
        if self.own_depth == 0 and self.frames:
            self._count_op(name.removesuffix("_"), args, out)
        return out

    def _count_op(self, name: str, args: Sequence[Any], out: Any) -> None:
        inputs, results = list(_tensors(args)), list(_tensors(out))
        if name in ops.MOVES or name == "max_pool2d_with_indices":
            codes = {self.codes.get(id(x)) for x in inputs if x.is_floating_point()}
            if len(codes) == 1 and (code := codes.pop()) is not None:
                for result in results:
                    self.tag(result, code)
        if name in ops.MOVES or name in ops.FREE:
            return
        transposed = name == "convolution" and args[6]
        if name in ops.STRIDE_ARGUMENT and len(args) > ops.STRIDE_ARGUMENT[name] and not transposed:
            self._check_stride(inputs[0], args[ops.STRIDE_ARGUMENT[name]])
        if name in ops.MACS:
            at = 1 if name in ("addmm", "baddbmm") else 0  # the first argument of these is the bias
            macs = ops.MACS[name](args, results[0])
            row = self._book(args[at], results[0], macs=macs, weight=args[at + 1], kind=name)
            row.groups = args[8] if name == "convolution" else 1
        elif name in ops.ELEMENTWISE:
            self._book(inputs[0], results[0], elements=results[0].numel(), kind=name)
        elif name in ops.REDUCTIONS:
            self._book(inputs[0], results[0], elements=inputs[0].numel(), kind=name)
        else:
            self.uncounted[f"{self.frames[-1].path or 'the network'}: no rule for the operator {name}"] = None


@contextmanager
def _watched(module: nn.Module, walk: _Walk) -> Iterator[None]:
    """Hooks on every submodule, and evaluation mode, for the time of one forward pass."""
    training = {child: child.training for child in module.modules()}
    handles = []
    for path, child in module.named_modules():

        def enter(child: nn.Module, _: Any, path: str = path) -> None:
            walk.enter(path, child)

        handles.append(child.register_forward_pre_hook(enter))
        handles.append(child.register_forward_hook(walk.leave))
    module.eval()
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for child, was_training in training.items():
            child.training = was_training


def _count_params(module: nn.Module, walk: _Walk, on_meta: Mapping[str, Tensor]) -> None:
    """Books parameters and running statistics on the module that owns them, each once however often it is shared."""
    seen: set[int] = set()
    for path, child in module.named_modules():
        own = {name: p for name, p in child.named_parameters(path, recurse=False) if id(p) not in seen}
        seen.update(id(p) for p in own.values())
        buffers = [b for b in child.buffers(recurse=False) if b.is_floating_point()]
        if not own and not buffers:
            continue
        row = walk.rows.setdefault(path, LayerCount(path, type(child).__name__))
        is_binary = isinstance(child, BConv) and child.mode == "binary"
        size = sum(p.numel() for p in own.values())
        row.binary_params += size if is_binary else 0
        row.real_params += 0 if is_binary else size
        row.state += sum(b.numel() for b in buffers)
        if own and row.weight_precision == "none":
            row.weight_precision = "+-1" if is_binary else _precision(next(iter(own.values())).dtype)
        for name in own:
            if id(on_meta[name]) not in walk.touched:
                walk.uncounted[f"{name}: counted as a parameter, but forward never uses it"] = None


def count(module: nn.Module, input_shape: Sequence[int], *, rule: Convention = PAPER) -> Budget:
    """The cost of `module` for one input of `input_shape` = (channels, height, width).

    The module is left as it was, on whatever device it is. Raises UserError if it does not run on that shape.
    """
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    on_meta = {
        name: t if t.is_meta else torch.empty_like(t, device="meta").requires_grad_(t.requires_grad)
        for name, t in state.items()
    }
    dtype = next((t.dtype for t in state.values() if t.is_floating_point()), torch.float32)
    x = torch.empty(1, *input_shape, dtype=dtype, device="meta")
    walk = _Walk()
    try:
        with _watched(module, walk), torch.no_grad(), walk:
            torch.func.functional_call(module, on_meta, (x,))
    except UserError:
        raise
    except Exception as error:  # whatever a user's forward may raise on tensors without numbers
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        where = walk.frames[-1].path if walk.frames and walk.frames[-1].path else "the network"
        shape = "x".join(map(str, input_shape))
        raise UserError(f"{where} does not run on an input of {shape}: {text}") from error
    _count_params(module, walk, on_meta)
    order = {path: index for index, (path, _) in enumerate(module.named_modules())}
    rows = sorted(walk.rows.values(), key=lambda row: order[row.path.partition(":")[0]])
    for line in walk.uncounted:
        warnings.warn(line, UncountedWarning, stacklevel=2)
    return Budget(tuple(rows), tuple(walk.uncounted), tuple(input_shape), rule)
