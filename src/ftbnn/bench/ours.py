"""The native engine as a contender, under any ISA of this machine, and its time from file to first answer.

Sums may be taken in any order, as all peers take theirs.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from ftbnn import _native
from ftbnn.bench.pixels import Images
from ftbnn.bench.rounds import Contender
from ftbnn.bench.subject import Subject
from ftbnn.errors import unknown
from ftbnn.runtime import load

FIRST_ANSWERS = 5  # fresh processes
_FIRST_ANSWER = """
import sys, time
import numpy as np
from ftbnn.runtime import load
image = np.zeros([1, *map(int, sys.argv[2].split(","))], np.float32)
started = time.perf_counter()
load(sys.argv[1], threads=1, any_order=True)(image)
print(time.perf_counter() - started)
"""


def isas_of(names: Sequence[str]) -> list[str]:
    """The ISAs to measure: those named, or the engine's best."""
    known = _native.capabilities()
    for name in names:
        if name not in known["isas"]:
            raise unknown("ISA on this machine", name, known["isas"])
    return list(names) or [known["isa"] if os.environ.get("FTBNN_ISA") else known["engine_isas"][0]]


def different_isas() -> list[str]:
    """Those whose engines differ, fastest first, without the one that runs anywhere; or the one that is forced."""
    if os.environ.get("FTBNN_ISA"):
        return isas_of(())
    return [isa for isa in _native.capabilities()["engine_isas"] if isa != "portable"]


def contender(subject: Subject, isa: str, threads: int, images: Images) -> Contender:
    model = load(subject.file, threads=threads, isa=isa, any_order=True)
    return Contender(subject.name, "ftbnn", "binary", model.isa, threads, len(images), lambda: model(images))


def first_answer_ms(subject: Subject, isa: str) -> float:
    """Median over fresh processes, after their imports: the file opened and one image answered, one thread."""
    shape = ",".join(map(str, subject.input_shape))
    command = [sys.executable, "-c", _FIRST_ANSWER, str(subject.file), shape]
    environment = os.environ | {"FTBNN_ISA": isa}
    answers = [
        float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
        for _ in range(FIRST_ANSWERS)
    ]
    return 1e3 * statistics.median(answers)
