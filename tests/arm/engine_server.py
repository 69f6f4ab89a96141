"""Runs engines for another process: requests on stdin, answers on stdout, both pickled (see elsewhere.py)."""

import os
import pickle
import sys
from typing import Any

import numpy as np

from ftbnn import _native

ENGINES: dict[int, _native.Engine] = {}


def answer(what: str, *given: Any, **options: Any) -> Any:
    """One request: `capabilities`, `open`, or an attribute of an open engine."""
    if what == "open":
        engine = _native.Engine(*given, **options)
        ENGINES[id(engine)] = engine
        return id(engine)
    if what.startswith("run"):
        number, images, shape = given
        scores = np.empty(shape, np.float32)
        getattr(ENGINES[number], what)(images, scores)
        return scores
    if what == "capabilities":
        return _native.capabilities()
    found = getattr(ENGINES[given[0]], what)
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
            del ENGINES[number]
        os.environ["FTBNN_ISA"] = isa
        try:
            reply = None, answer(what, *given, **options)
        except Exception as error:
            reply = type(error).__name__, str(error)
        pickle.dump(reply, answers)
        answers.flush()


if __name__ == "__main__":
    serve()
