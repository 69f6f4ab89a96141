"""How a run is carried out: what is not the recipe."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ftbnn.errors import UserError, refusing, unknown, wrong_kind
from ftbnn.models.spec import ModelSpec

LEAST = {"seed": 0, "workers": 0, "save_every": 0, "log_every": 1, "max_corrupt": 0}
# After each epoch, with its row of metrics (`epoch` from 1 on, as in scores) and the network; True ends the training.
Callback = Callable[[dict[str, Any], nn.Module], bool | None]


@refusing(lambda name: unknown("option", name, Options.__dataclass_fields__))
@dataclass(frozen=True)
class Options:
    """Settings of `fit` beside network, data, recipe and directory.

    `loss`, `optimizer` and `scheduler` replace the recipe's: loss(outputs, labels), optimizer(network), and
    scheduler(optimizer), which takes a step after each epoch.
    """

    seed: int = 0
    resume: bool = False  # go on with the run in the directory; more epochs than it had extend it
    device: str = "auto"  # cpu, cuda or auto
    workers: int = 0  # processes that decode images
    teacher: nn.Module | None = None
    loss: Callable[[Any, Tensor], Tensor] | None = None
    optimizer: Callable[[nn.Module], Optimizer] | None = None
    scheduler: Callable[[Optimizer], LRScheduler] | None = None
    callbacks: Sequence[Callback] = ()
    save_every: int = 0  # steps; 0: after each epoch and every `save_minutes`
    save_minutes: float = 10.0
    log_every: int = 50  # steps between rows of metrics
    max_corrupt: float = 0.01  # share of images that may be unreadable
    quiet: bool = False
    model: ModelSpec = field(default_factory=ModelSpec)  # how to make the network again
    teacher_name: str = ""
    origin: dict[str, Any] = field(default_factory=dict)  # what the first weights came from

    def __post_init__(self) -> None:
        for name, bound in LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not bound <= value < 2**63:
                raise UserError(f"{name} must be {bound} or more, not {value!r}")
        if self.max_corrupt > 1:
            raise UserError(f"max_corrupt is a share of the images, 0 to 1, not {self.max_corrupt:g}")
        functions = {
            "loss": "a function of outputs and labels",
            "optimizer": "a function of the network that makes it",
            "scheduler": "a function of the optimizer that makes it",
        }
        for name, kind in functions.items():
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise wrong_kind(f"{name} is {kind}", value)
        if not isinstance(self.callbacks, Sequence) or not all(map(callable, self.callbacks)):
            raise UserError("callbacks are a list of functions of an epoch's row and the network")
