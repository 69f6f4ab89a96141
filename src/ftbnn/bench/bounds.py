"""The native loops that bound kernels. They are of use to whoever works on kernels, so wheels do without them."""

from types import ModuleType

from ftbnn import _native
from ftbnn.errors import UserError


def bounds() -> ModuleType:
    """`_native.bench`, where the build has it."""
    found: ModuleType | None = getattr(_native, "bench", None)
    if found is None:
        raise UserError(
            "this build leaves out the loops that kernels are compared with: in a checkout, make setup, or "
            "pip install -C cmake.define.FTBNN_BENCH=ON '.[train]'"
        )
    return found
