"""Many processes, or one: who we are, sums over all, and what only the first may do."""

import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]

from ftbnn.errors import UserError, unknown

TIMEOUT = timedelta(minutes=10)
_worlds = itertools.count()


@dataclass(frozen=True)
class World:
    """The processes of this run. `restarts` is how often torchrun has started them again."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    restarts: int = 0

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def device(self, wanted: str) -> torch.device:
        if wanted == "auto":
            wanted = "cuda" if torch.cuda.is_available() else "cpu"
        if wanted == "cuda" and not torch.cuda.is_available():
            raise UserError("there is no CUDA device here; the device is cpu, or auto")
        if wanted not in ("cpu", "cuda"):
            raise unknown("device", wanted, ("cpu", "cuda", "auto"))
        return torch.device(wanted, self.local_rank) if wanted == "cuda" else torch.device(wanted)

    def sum(self, values: Sequence[float], device: torch.device) -> list[float]:
        """The element-wise sum over all processes, in double precision where the device has it."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(total)
        return total.tolist()

    def average(self, tensor: torch.Tensor) -> None:
        """Makes it the mean of all processes' tensors."""
        if self.size > 1:
            dist.all_reduce(tensor)
            tensor /= self.size

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, in the order of ranks."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def share(self, value: Any) -> Any:
        """The first process's value, everywhere."""
        values = [value]
        if self.size > 1:
            dist.broadcast_object_list(values, 0)
        return values[0]

    def share_buffers(self, network: nn.Module) -> None:
        """Gives all processes the first one's BatchNorm statistics: one network, one answer."""
        if self.size > 1:
            for buffer in network.buffers():
                dist.broadcast(buffer, 0)

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()


ALONE = World()


@contextmanager
def world(device: str) -> Iterator[World]:
    """The world torchrun describes in the environment; without torchrun a world of one."""
    try:
        here = World(
            rank=int(os.environ.get("RANK", "0")),
            size=int(os.environ.get("WORLD_SIZE", "1")),
            local_rank=int(os.environ.get("LOCAL_RANK", "0")),
            restarts=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        )
    except ValueError as error:
        raise UserError(f"RANK, WORLD_SIZE and LOCAL_RANK are torchrun's and must be numbers: {error}") from error
    on_gpu = here.device(device).type == "cuda"
    if on_gpu:
        torch.cuda.set_device(here.local_rank)
    if here.size == 1:
        yield here
        return
    # torchrun keeps one store over all its restarts: without a prefix of its own a restarted process would find the
    # address of one that died, and a second training in the same processes those of the first.
    store, rank, size = next(rendezvous("env://"))
    store = PrefixStore(f"attempt{here.restarts}/world{next(_worlds)}", store)
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    try:
        yield here
    finally:
        dist.destroy_process_group()


def leave(code: int) -> NoReturn:
    """Ends a process of several at once, without Python's own tidying up.

    gloo's threads outlive destroy_process_group, and one that lets go of its last tensor while Python shuts down aborts
    the process: "terminate called without an active exception" (pytorch/pytorch#190489), after all was saved.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
