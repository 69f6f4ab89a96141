"""The operators of this package that PyTorch knows by name, `torch.ops.ftbnn`, and when it is asked for them.

Each has a schema, a shape function ("fake"), a gradient, and a registration for every code that computes it: plain
PyTorch for any device, the native core for CPUs. A GPU's would be one more `implement(..., "CUDA")`.
In plain eager mode a layer calls the operator's function itself: the dispatcher costs 40 microseconds a call, a tenth
of a small training step. Whoever traces, compiles or transforms sees the operator.
"""

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY: Any = torch.library.Library("ftbnn", "DEF")  # type: ignore[no-untyped-call]


def define(
    schema: str,
    *,
    plain: Callable[..., Any],
    fake: Callable[..., Any],
    gradient: Callable[..., Any] | None = None,
) -> Any:
    """Registers `ftbnn::NAME`. `plain` computes it with PyTorch on any device, `gradient` is an autograd function's
    apply whose forward may call the operator again, below autograd. Returns the operator."""
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, plain, "CompositeExplicitAutograd")
    torch.library.register_fake(f"ftbnn::{name}", fake, lib=_LIBRARY)
    operator = getattr(torch.ops.ftbnn, name).default

    def differentiate(*args: Any) -> Any:
        if gradient is not None and torch.is_grad_enabled() and torch._C._any_requires_grad(*args):
            return gradient(*args)
        with below_autograd():
            return operator(*args)

    _LIBRARY.impl(name, differentiate, "Autograd")
    return operator


def implement(name: str, kernel: Callable[..., Any], device: str) -> None:
    """One more code that computes an operator."""
    _LIBRARY.impl(name, kernel, device)


def below_autograd() -> Any:
    """Inside, operators are computed and not differentiated."""
    return torch._C._AutoDispatchBelowAutograd()


def is_seen() -> bool:
    """Whether somebody wants to see operators: a compiler, a tracer or a dispatch mode. (Transforms of torch.func take
    the gradient's function itself.)"""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
    )


def is_transformed() -> bool:
    """Whether a transform of torch.func, as vmap, is at work."""
    return torch._C._are_functorch_transforms_active()
