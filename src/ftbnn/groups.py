"""How channels go over the groups of a convolution: what training, packing and reading a file agree on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A run of equal groups: the channels it reads and writes, and the name of its weight."""

    weight: str
    groups: int
    inputs: slice
    outputs: slice


def split_groups(in_channels: int, out_channels: int, groups: int) -> tuple[Part, ...]:
    """Channels over groups: floor(c / groups) each, in and out; the last group takes the remainder too.

    One part if that comes out even; else the first groups - 1 groups and, on its own, the last.
    """
    inside, outside = in_channels // groups, out_channels // groups
    if inside * groups == in_channels and outside * groups == out_channels:
        return (Part("weight", groups, slice(0, in_channels), slice(0, out_channels)),)
    in_head, out_head = inside * (groups - 1), outside * (groups - 1)
    return (
        Part("weight", groups - 1, slice(0, in_head), slice(0, out_head)),
        Part("tail", 1, slice(in_head, in_channels), slice(out_head, out_channels)),
    )
