"""How long the networks of the zoo take in two installed wheels, in turns: compare.py SITE SITE, of build/wheels.

The fastest call of each, one thread, in milliseconds, for each ISA of the machine.
"""

import json
import os
import subprocess
import sys

TURNS, SECONDS = 3, 0.15
MEASURE = f"""
import json, time
import numpy as np
import ftbnn
from ftbnn import _native

found = {{}}
for isa in _native.capabilities()["engine_isas"]:
    for name in ("cifar10", "imagenette"):
        model = ftbnn.load(f"zoo:{{name}}", threads=1, isa=isa)
        image = np.zeros((1, *model.input_shape), np.float32)
        best, end = float("inf"), time.perf_counter() + {SECONDS}
        while (start := time.perf_counter()) < end:
            model(image)
            best = min(best, time.perf_counter() - start)
        found[f"{{name}} {{isa}}"] = 1e3 * best
print(json.dumps(found))
"""


def measured(site: str) -> dict[str, float]:
    env = os.environ | {"PYTHONPATH": site}
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE], env=env, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


sites = sys.argv[1:]
turns = [[measured(site) for site in sites] for _ in range(TURNS)]
for case in turns[0][0]:
    first, second = (min(turn[k][case] for turn in turns) for k in range(2))
    print(f"{case:24} {first:8.3f} {second:8.3f}  x {first / second:.2f}")
