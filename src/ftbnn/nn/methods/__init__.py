"""Binarization methods by name: one file each, or one row where what there is suffices."""

from ftbnn.errors import unknown
from ftbnn.nn.method import Method
from ftbnn.nn.methods.irnet import IRNET
from ftbnn.nn.methods.reactnet import REACTNET
from ftbnn.nn.signs import MeanScaledSigns

METHODS: dict[str, Method] = {
    "ftbnn": Method("no scale, ReLU at stage ends, FPReLU elsewhere", act="fprelu", stage_end_act="relu"),
    "bireal": Method("Bi-Real Net: scaled by mean magnitudes, no non-linear modules", signs=MeanScaledSigns),
    "irnet": IRNET,
    "reactnet": REACTNET,
}


def method_named(name: str | Method) -> Method:
    """The row of that name; a Method of one's own as it is."""
    if isinstance(name, Method):
        return name
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
