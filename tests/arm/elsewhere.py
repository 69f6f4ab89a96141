"""A plugin of pytest: engines and training's operators run in another process, on another CPU, and the tests are none
the wiser.

    FTBNN_ELSEWHERE="qemu-aarch64 ... python3 tests/arm/engine_server.py" pytest -p elsewhere tests/unit/runtime

PyTorch need not be there: it makes networks, tensors and what is expected of them here; files and arrays go there.
"""

import builtins
import ctypes
import os
import pickle
import shlex
import subprocess
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from ftbnn import _native, errors
from ftbnn.nn.native import core, operation

SERVER = subprocess.Popen(shlex.split(os.environ["FTBNN_ELSEWHERE"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
TURN = threading.Lock()
CLOSED: list[int] = []  # what nobody has any more; said with the next request, for they end at any moment


def ask(what: str, *given: Any, **options: Any) -> Any:
    with TURN:
        assert SERVER.stdin is not None
        assert SERVER.stdout is not None
        closed = [CLOSED.pop() for _ in range(len(CLOSED))]
        pickle.dump((os.environ.get("FTBNN_ISA", ""), closed, what, given, options), SERVER.stdin)
        SERVER.stdin.flush()
        error, found = pickle.load(SERVER.stdout)
    if error is None:
        return found
    for home in (_native, errors, builtins):
        if kind := getattr(home, error, None):
            raise kind(found)
    raise RuntimeError(f"{error}: {found}")


class There:
    """Stands for an object of the other process."""

    number: int

    def __del__(self) -> None:
        if "number" in self.__dict__:
            CLOSED.append(self.number)


class Engine(There):
    """As `_native.Engine`."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self.number = ask("open", *given, **options)

    def run_f32(self, images: np.ndarray, scores: np.ndarray) -> None:
        scores[...] = ask("run_f32", self.number, images, scores.shape)

    def run_u8(self, images: np.ndarray, scores: np.ndarray) -> None:
        scores[...] = ask("run_u8", self.number, images, scores.shape)

    def profile_f32(self, image: np.ndarray, rounds: int) -> list[float]:
        return ask("profile_f32", self.number, image, rounds)

    def profile_u8(self, image: np.ndarray, rounds: int) -> list[float]:
        return ask("profile_u8", self.number, image, rounds)

    def operators(self) -> list[tuple[Any, ...]]:
        return ask("operators", self.number)

    def __getattr__(self, name: str) -> Any:
        return ask(name, self.number)


class Array(tuple[int, int]):
    """(address, number of elements), and the bytes of each."""

    element_bytes = 4


def arrays(tensors: Mapping[str, Tensor | None]) -> dict[str, tuple[int, int]]:
    found = {name: Array(place) for name, place in core.arrays(tensors).items()}
    for name, array in found.items():
        array.element_bytes = tensors[name].element_size()  # type: ignore[union-attr]
    return found


def memory_of(place: tuple[int, int]) -> np.ndarray:
    size_bytes = place[1] * getattr(place, "element_bytes", Array.element_bytes)
    return np.frombuffer((ctypes.c_uint8 * size_bytes).from_address(place[0]), np.uint8)


class Operator(There):
    """As the class of `_native.training` that has its name."""

    def __init__(self, **told: Any) -> None:
        parts = {name: told.pop(name).number for name in list(told) if isinstance(told[name], There)}
        self.number = ask("make", type(self).__name__, parts, **told)

    def forward(self, threads: int, arrays: Mapping[str, tuple[int, int]]) -> Any:
        return self._run("forward", threads, arrays)

    def backward(self, threads: int, arrays: Mapping[str, tuple[int, int]]) -> Any:
        return self._run("backward", threads, arrays)

    def _run(self, way: str, threads: int, arrays: Mapping[str, tuple[int, int]]) -> Any:
        memory = {name: memory_of(place) for name, place in arrays.items()}
        sent = {name: (memory[name].tobytes(), place[1]) for name, place in arrays.items()}
        said, written = ask("train", self.number, way, threads, sent)
        for name, data in written.items():
            memory[name][...] = np.frombuffer(data, np.uint8)
        return said


_native.Engine = Engine  # type: ignore[misc,assignment]
_native.capabilities = lambda: ask("capabilities")  # type: ignore[assignment]
operation.arrays = arrays
for name, kind in list(vars(_native.training).items()):
    if isinstance(kind, type):
        setattr(_native.training, name, type(name, (Operator,), {}))
