"""Which backend a run trains with: what the recipe asks for, the machine has and the run began with.

`auto` is decided by rows that were measured, not by a trial on the spot: the same machine and network must always give
the same backend, or the same seed would not give the same bits.
"""

from dataclasses import dataclass, replace

import torch
from torch import nn

from ftbnn import machine
from ftbnn.errors import UserError
from ftbnn.nn.layer import layers
from ftbnn.nn.native.core import is_faster, require
from ftbnn.training.recipe import Recipe


@dataclass(frozen=True)
class Fact:
    """How many times as fast as `torch` a step is with these kernels, from networks of width 16 up to those of 64."""

    backend: str
    kernels: str  # of the gradients, as `ftbnn info` names them
    speed: tuple[float, float]


# Fastest first. Reports: 2026-11-18-amd-epyc-family-26-model-2-look-ups, and of avx512vnni 2026-11-18-training-passes.
FACTS = (
    Fact("native8", "avx512tables", (2.8, 5.1)),
    Fact("native8", "avx512vnni", (2.1, 5.1)),
    Fact("native8", "avxvnni", (2.3, 4.4)),
    Fact("native8", "avx2", (2.7, 3.9)),
    Fact("native", "avx512bf16", (2.4, 3.3)),
    Fact("native", "avx2", (1.3, 1.9)),
)
# Where it is shown that they learn what torch learns; `auto` takes no other, and native8 as soon as it has a line here.
LEARNS_THE_SAME = {"native": "benchmarks/reports/2026-11-16-backends"}
KERNELS = {"native": "gradients", "native8": "byte_gradients"}


@dataclass(frozen=True)
class Choice:
    backend: str
    why: str


def resolve(recipe: Recipe, network: nn.Module, device: torch.device, *, before: str | None = None) -> Recipe:
    """The recipe with `auto` decided. A resumed run goes on with the backend it had `before`."""
    return replace(recipe, backend=choose(recipe, network, device, before=before).backend)  # type: ignore[arg-type]


def choose(recipe: Recipe, network: nn.Module, device: torch.device, *, before: str | None = None) -> Choice:
    """The backend of a run, and why."""
    obstacle = _obstacle(recipe, network, device)
    if before is not None and recipe.backend in ("auto", before):
        choice = Choice(before, "the run began with it")
    elif recipe.backend != "auto":
        choice = Choice(recipe.backend, "the recipe says so")
    elif obstacle is not None:
        return Choice("torch", f"native {obstacle}")
    else:
        return _fastest()
    if choice.backend.startswith("native"):
        if obstacle is not None:
            raise UserError(f"backend={choice.backend} {obstacle}; backend=torch does")
        require(choice.backend)
    return choice


def _fastest() -> Choice:
    """On this machine."""
    if not is_faster():
        return Choice("torch", "this machine has no kernels that train faster")
    kernels = machine.capabilities()["kernels"]
    here = [fact for fact in FACTS if kernels[KERNELS[fact.backend]] == fact.kernels]
    known = [fact for fact in here if fact.backend in LEARNS_THE_SAME]
    if known:
        fact = known[0]
        speed = " to ".join(f"{times:g}" for times in sorted(set(fact.speed)))
        why = f"{speed} times as fast as torch where measured ({fact.kernels} kernels)"
        faster = next((other for other in here if FACTS.index(other) < FACTS.index(fact)), None)
        more = "" if faster is None else f"; backend={faster.backend} is faster still, with gradients in bytes"
        return Choice(fact.backend, why + more)
    return Choice("native", f"its {kernels['gradients']} kernels have not been measured, but others were faster")


def _obstacle(recipe: Recipe, network: nn.Module, device: torch.device) -> str | None:
    """Why this cannot be trained natively. Single layers that cannot (real convolutions, say) run in PyTorch."""
    if device.type != "cpu":
        return f"does not train on {device.type}"
    if recipe.precision != "fp32":
        return f"does not train with precision={recipe.precision}"
    if recipe.compile:
        return "does not train with compile=true"
    if not any(layer.has_binary_form for _, layer in layers(network)):
        return "does not train a network without binary convolutions"
    return None
