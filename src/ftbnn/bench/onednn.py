"""Keeps PyTorch and OpenVINO alive on guests whose hypervisor shows AMX but hides how its tiles look.

Their library oneDNN asks CPUID leaf 0x1D for the tiles' palette. Where that leaf is empty its AMX code dies with
SIGILL, and it must be held to AVX-512. Where the leaf is there, nothing is held back: the peers use AMX as we do.
"""

import os

from ftbnn import _native

VARIABLE, LIMIT = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"


def protect() -> str | None:
    """Call before PyTorch or OpenVINO is imported. The limit in force, if there is one."""
    if _native.bench.hides_tile_palette():
        os.environ.setdefault(VARIABLE, LIMIT)
    return os.environ.get(VARIABLE)
