"""Which backend a run trains with: what the recipe asks for, the machine has and the run began with."""

from dataclasses import replace

import torch
from torch import nn

from ftbnn import _native
from ftbnn.errors import UserError
from ftbnn.nn import BConv
from ftbnn.nn.native import FASTER_WITH
from ftbnn.training.recipe import Recipe


def isa() -> str:
    """The instruction set of the native kernels."""
    return _native.isa_in_use()


def resolve(recipe: Recipe, network: nn.Module, device: torch.device, *, before: str | None = None) -> Recipe:
    """The recipe with `auto` decided. A resumed run goes on with the backend it had `before`."""
    obstacle = _obstacle(recipe, network, device)
    wanted = before if before is not None and recipe.backend == "auto" else recipe.backend
    if wanted == "auto":
        wanted = "native" if obstacle is None and isa() in FASTER_WITH else "torch"
    if wanted.startswith("native") and obstacle is not None:
        raise UserError(f"backend={wanted} {obstacle}; --set backend=torch does")
    if wanted == "native8" and not _native.training.has_byte_kernels():
        raise UserError("backend=native8 needs a CPU with AVX-512 VNNI; --set backend=native does without")
    return replace(recipe, backend=wanted)  # type: ignore[arg-type]


def _obstacle(recipe: Recipe, network: nn.Module, device: torch.device) -> str | None:
    """Why this cannot be trained natively. Single layers that cannot (real convolutions, say) run in PyTorch."""
    if device.type != "cpu":
        return f"does not train on {device.type}"
    if recipe.precision != "fp32":
        return f"does not train with precision={recipe.precision}"
    if recipe.compile:
        return "does not train with compile=true"
    if not any(isinstance(module, BConv) for module in network.modules()):
        return "does not train a network without binary convolutions"
    return None
