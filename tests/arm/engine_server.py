"""Runs engines and training's operators for another process (elsewhere.py): requests on stdin, answers on stdout, both
pickled.
"""

import os
import pickle
import sys
from typing import Any

import numpy as np

from ftbnn import _native

OBJECTS: dict[int, Any] = {}


def kept(made: Any) -> int:
    OBJECTS[id(made)] = made
    return id(made)


def train(operator: Any, way: str, threads: int, sent: dict[str, tuple[bytes, int]]) -> Any:
    """What the operator says, and the arrays that it has written."""
    memory = {name: np.frombuffer(bytearray(data), np.uint8) for name, (data, _) in sent.items()}
    said = getattr(operator, way)(threads, {name: (memory[name].ctypes.data, sent[name][1]) for name in sent})
    after = {name: array.tobytes() for name, array in memory.items()}
    return said, {name: data for name, data in after.items() if data != sent[name][0]}


def answer(what: str, *given: Any, **options: Any) -> Any:
    """One request: `capabilities`, something to `open` or `make`, or what such an object can do."""
    if what == "open":
        return kept(_native.Engine(*given, **options))
    if what == "make":
        kind, parts = given
        return kept(getattr(_native.training, kind)(**options, **{name: OBJECTS[part] for name, part in parts.items()}))
    if what == "train":
        return train(OBJECTS[given[0]], *given[1:])
    if what.startswith("run"):
        number, images, shape = given
        scores = np.empty(shape, np.float32)
        getattr(OBJECTS[number], what)(images, scores)
        return scores
    if what == "capabilities":
        return _native.capabilities()
    found = getattr(OBJECTS[given[0]], what)
    return found(*given[1:]) if callable(found) else found


def serve() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may come between
    while True:
        try:
            isa, closed, what, given, options = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        for number in closed:
            del OBJECTS[number]
        os.environ["FTBNN_ISA"] = isa
        try:
            reply = None, answer(what, *given, **options)
        except Exception as error:
            reply = type(error).__name__, str(error)
        pickle.dump(reply, answers)
        answers.flush()


if __name__ == "__main__":
    serve()
