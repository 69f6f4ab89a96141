"""What PyTorch and OpenVINO may use of the CPU: no more than we, and nothing that kills them.

Where one ISA of ours is measured, their library oneDNN is held to the same (ONNX Runtime cannot be held).

Their library oneDNN asks CPUID leaf 0x1D for the tiles' palette. Where that leaf is empty its AMX code dies with
SIGILL, and it must be held to AVX-512. Where the leaf is there, nothing is held back: the peers use AMX as we do.
"""

import os
from collections.abc import Sequence

from ftbnn import _native

VARIABLE, LIMIT = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
SAME = {"portable": "SSE41", "avx2": "AVX2"}  # of an ISA of ours: what oneDNN calls it


def held_to() -> str:
    """The ISA of ours that PyTorch and OpenVINO are held to, or "auto"."""
    return next((isa for isa, limit in SAME.items() if limit == os.environ.get(VARIABLE)), "auto")


def protect(isas: Sequence[str] = ()) -> str | None:
    """Call before PyTorch or OpenVINO is imported. The limit in force, if there is one."""
    if len(isas) == 1 and isas[0] in SAME:
        os.environ.setdefault(VARIABLE, SAME[isas[0]])
    elif _native.hides_tile_palette():
        os.environ.setdefault(VARIABLE, LIMIT)
    return os.environ.get(VARIABLE)
