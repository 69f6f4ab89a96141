"""Fusion: BatchNorms, biases, shortcuts and non-linearities into the epilogue of the operator before them.

act(pieces(scale * acc + shift) + shortcut) + after: a step joins as long as it comes no earlier in this order than what
is there; a shift may, for sums have no order, and so may a scale behind straight pieces, whose slopes it changes.
Straight pieces that a shortcut follows are the first ones, and make room for another non-linearity. Of a
sum of convolutions each takes its part: a scale goes to all of them, a shortcut to the first that has none. What is
done for signs alone, a shift or a BatchNorm, is the threshold of the binary convolution.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ftbnn.groups import split_groups
from ftbnn.packing.graph import (
    STRAIGHT,
    BConv,
    Conv,
    Epilogue,
    Fused,
    Graph,
    Linear,
    Numbers,
    Operator,
    Pointwise,
    RoundedConv,
    Value,
)

LARGEST = float(np.finfo(np.float32).max)

# Of two operators that an addition could join, the first of these: what is left for the other is to be computed before.
_PREFERENCE: tuple[type[Operator], ...] = (BConv, Conv, RoundedConv, Linear, Pointwise)


def fold(graph: Graph, whole: Collection[Value] = ()) -> Graph:
    """The same function in fewer operators, without those that nothing reads, in an order in which they can run.

    The values of `whole` are whole numbers: their parts are added before anything scales them, so that sums are exact.
    """
    writer = {operator.output: operator for operator in graph.operators}
    _move_to_thresholds(graph, writer, only_for_signs=True)
    alive = in_order(graph.output, writer)
    reads = Counter(value for operator in alive for value in operator.reads())
    reads[graph.output] += 1
    for step in alive:
        if isinstance(step, Pointwise):
            _join(step, writer, reads, whole)
    _move_to_thresholds(graph, writer, only_for_signs=False)
    return replace(graph, operators=tuple(in_order(graph.output, writer)))


def in_order(output: Value, writer: dict[Value, Operator]) -> list[Operator]:
    """The operators that `output` depends on, each behind those it reads from, close behind its first input."""
    done: dict[Value, Operator] = {}
    open_values = [output]
    while open_values:
        value = open_values[-1]
        missing = [v for v in writer[value].reads() if v in writer and v not in done] if value in writer else []
        if missing:
            open_values.append(missing[0])
            continue
        open_values.pop()
        if value in writer and value not in done:
            done[value] = writer[value]
    return list(done.values())


def _move_to_thresholds(graph: Graph, writer: dict[Value, Operator], *, only_for_signs: bool) -> None:
    """x + shift > 0 is x > -shift: what binary convolutions alone read need not be computed."""
    alive = in_order(graph.output, writer)
    signed, real = defaultdict(list), {graph.output}
    for operator in alive:
        for value in operator.reads():
            if isinstance(operator, BConv) and value is not operator.epilogue.shortcut:
                signed[value].append(operator)
            else:
                real.add(value)
    for step in alive:
        if not isinstance(step, Pointwise) or step.output in real or (only_for_signs and not step.is_for_signs):
            continue
        found = step.epilogue.affine
        if found is None or ((found[0] <= 0).any() and any(conv.zero_one for conv in signed[step.output])):
            continue
        for conv in signed[step.output]:
            _compare_before(conv, *found)
            conv.inputs = step.inputs
            conv.folded += (step.path, *step.folded)


def _compare_before(conv: BConv, scale: Numbers, shift: Numbers) -> None:
    """scale * x + shift > threshold, said of x. Where the scale is negative the code is the other one, and weights
    turn; where it is 0, x has no say."""
    limit = np.zeros_like(shift) if conv.threshold is None else conv.threshold
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        threshold = ((limit - shift) / scale).astype(np.float32)
    below = np.nextafter(threshold, np.float32(-np.inf))  # x > below is x >= threshold, the opposite of x < threshold
    always = np.where(shift > limit, -LARGEST, LARGEST)
    threshold = np.where(scale > 0, threshold, np.where(scale < 0, below, always))
    # What is only shifted is not rounded yet; a BatchNorm of nearly no scale asks for more than there are numbers.
    conv.threshold = np.where(scale == 1, limit - shift, np.clip(threshold.astype(np.float64), -LARGEST, LARGEST))
    if (scale < 0).any():
        conv.positive = _turned(conv, scale < 0)


def _turned(conv: BConv, channels: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], ...]:
    """Weights of these input channels with the other sign."""
    parts = []
    for part, positive in zip(
        split_groups(conv.inputs[0].channels, conv.output.channels, conv.groups), conv.positive, strict=True
    ):
        turn = channels[part.inputs].reshape(part.groups, 1, -1)  # [group][.][in of group]
        by_group = positive.reshape(part.groups, -1, *positive.shape[1:]) ^ turn[..., None, None]
        parts.append(by_group.reshape(positive.shape))
    return tuple(parts)


def _join(step: Pointwise, writer: dict[Value, Operator], reads: Counter[Value], whole: Collection[Value]) -> None:
    """Makes a pointwise operator the end of the one before it, if nothing else reads what lies between. First pieces
    take a newer version of the file: an end without them is tried before."""
    views = [
        (before, reads[value], end) for value, end in _views(step) if isinstance(before := writer.get(value), Fused)
    ]
    for before, readers, end in sorted(views, key=lambda view: (_bends(view[0], view[2]), _preference(view[0]))):
        if readers != 1 or (before.output in whole and _rounds_parts(before.epilogue, end)):
            continue
        joined = then(before.epilogue, end, before.output.channels) or _spread(before, end, writer, reads)
        if joined is not None:
            before.epilogue = joined
            before.folded += (step.path, *step.folded)
            before.output = step.output
            writer[step.output] = before
            return


def _preference(operator: Fused) -> int:
    return _PREFERENCE.index(type(operator))


def _bends(before: Fused, end: Epilogue) -> bool:
    """Whether its non-linearity would stand before a shortcut."""
    return before.epilogue.act in STRAIGHT and end.shortcut is not None


def _rounds_parts(first: Epilogue, second: Epilogue) -> bool:
    """Whether a scale would meet several summands, and is no power of two, which rounds none of them."""
    is_sum = first.shift is not None or first.shortcut is not None
    return is_sum and second.scale is not None and bool((np.abs(np.frexp(second.scale)[0]) != 0.5).any())


def _spread(before: Fused, second: Epilogue, writer: dict[Value, Operator], reads: Counter[Value]) -> Epilogue | None:
    """The epilogue of the last part of a sum with what comes behind the sum, which the other parts take theirs of; None
    where one of them cannot. Nothing is changed then."""
    first, channels = before.epilogue, before.output.channels
    plan: list[tuple[Fused, Epilogue]] = []
    if first.shortcut is None or first.act != "none" or second.has_pieces:
        return None
    joined: Epilogue | None = replace(first, shortcut=None)
    if not second.only_adds:
        joined = then(replace(first, shortcut=None), replace(second, shortcut=None), channels)
    value: Value | None = first.shortcut
    homeless = second.shortcut
    while value is not None and (second.scale is not None or homeless is not None):
        part = writer.get(value)
        if not isinstance(part, Fused) or reads[value] != 1:
            return None
        own, value = part.epilogue, part.epilogue.shortcut
        if own.shortcut is not None and own.act != "none":
            return None  # no part of the sum itself
        taken = homeless if own.shortcut is None else None
        changed: Epilogue | None = own
        if second.scale is not None or taken is not None:
            changed = then(replace(own, shortcut=None), Epilogue(scale=second.scale, shortcut=taken), channels)
        if changed is None:
            return None
        plan.append((part, changed if taken is not None else replace(changed, shortcut=own.shortcut)))
        homeless = None if taken is not None else homeless
    if homeless is not None or joined is None:
        return None
    shortcut = first.shortcut
    for number, (part, epilogue) in enumerate(reversed(plan)):  # other numbers are another value
        part.epilogue = replace(epilogue, shortcut=shortcut) if number else epilogue
        shortcut = part.output = Value(part.output.channels, part.output.height, part.output.width)
        writer[shortcut], reads[shortcut] = part, 1
    return replace(joined, shortcut=shortcut)


def _views(step: Pointwise) -> Iterator[tuple[Value, Epilogue]]:
    """The operator as its input's epilogue; a plain addition is as well that of its shortcut."""
    value, epilogue = step.inputs[0], step.epilogue
    yield value, epilogue
    if epilogue.shortcut is not None and epilogue.scale is None and epilogue.shift is None and not epilogue.has_pieces:
        yield epilogue.shortcut, replace(epilogue, shortcut=value)


def then(first: Epilogue, second: Epilogue, channels: int) -> Epilogue | None:
    """Both epilogues as one, or None where the order of steps does not allow it."""
    is_over = first.act != "none" or first.after is not None
    ends_in_pieces = first.act in STRAIGHT or (first.act == "none" and first.has_pieces and first.shortcut is None)
    if second.scale is not None and second.affine is not None and ends_in_pieces:
        return _steeper(first, *second.affine)
    if (is_over or first.has_pieces) and (more := second.only_shift) is not None:
        return replace(first, after=more if first.after is None else first.after + more)
    scales = second.scale is not None or second.has_pieces
    if first.act in STRAIGHT and second.shortcut is not None and not scales and second.shift is None:
        return _behind_pieces(first, second, channels)
    is_late = first.shortcut is not None and (scales or second.shortcut is not None)
    if is_over or is_late or (first.has_pieces and (scales or second.shift is not None)):
        return None
    scale, shift = first.scale, first.shift
    if second.scale is not None:
        scale = second.scale if scale is None else scale * second.scale
        shift = None if shift is None else shift * second.scale
    if second.shift is not None:
        shift = second.shift if shift is None else shift + second.shift
    shortcut = first.shortcut if first.shortcut is not None else second.shortcut
    bent = first if first.has_pieces else second
    joined = replace(second, scale=scale, shift=shift, shortcut=shortcut)
    return replace(joined, first_left=bent.first_left, first_right=bent.first_right)


def _behind_pieces(first: Epilogue, second: Epilogue, channels: int) -> Epilogue | None:
    """Straight pieces, then a shortcut: what is added behind the pieces is added behind the shortcut, if nothing else
    is done there."""
    if first.shortcut is not None or first.has_pieces or (first.after is not None and second.act != "none"):
        return None
    left, right = first.slopes(channels)
    after = second.after
    if first.after is not None:
        after = first.after if after is None else first.after + after
    return replace(second, scale=first.scale, shift=first.shift, first_left=left, first_right=right, after=after)


def _steeper(first: Epilogue, scale: Numbers, shift: Numbers) -> Epilogue:
    """Straight pieces, then a scale and a shift: pieces of other slopes, and what is added behind them."""
    after = shift if first.after is None else first.after * scale + shift
    kept = after if after.any() else None
    if first.act == "none":
        assert first.first_left is not None
        assert first.first_right is not None
        return replace(first, first_left=first.first_left * scale, first_right=first.first_right * scale, after=kept)
    left, right = first.slopes(len(scale))
    return replace(first, act="fprelu", left=left * scale, right=right * scale, after=kept)
