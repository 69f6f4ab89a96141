"""A plugin of pytest: engines run in another process, on another CPU, and the tests are none the wiser.

    FTBNN_ELSEWHERE="qemu-aarch64 ... python3 tests/arm/engine_server.py" pytest -p elsewhere tests/unit/runtime

PyTorch need not be there: it makes networks and their expected outputs here, and the files run there.
"""

import builtins
import os
import pickle
import shlex
import subprocess
import threading
from typing import Any

import numpy as np

from ftbnn import _native, errors

SERVER = subprocess.Popen(shlex.split(os.environ["FTBNN_ELSEWHERE"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
TURN = threading.Lock()
CLOSED: list[int] = []  # engines that nobody has any more; said with the next request, for they end at any moment


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


class Engine:
    """As `_native.Engine`, which it stands for."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self.number = ask("open", *given, **options)

    def __del__(self) -> None:
        if "number" in self.__dict__:
            CLOSED.append(self.number)

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


_native.Engine = Engine  # type: ignore[misc,assignment]
_native.capabilities = lambda: ask("capabilities")  # type: ignore[assignment]
