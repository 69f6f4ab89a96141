"""Fusion: BatchNorms, biases, shortcuts and non-linearities into the epilogue of the operator before them.

act(scale * acc + shift + shortcut) + after: a step joins as long as it comes no earlier in this order than what is
there; a shift may, for sums have no order. What is added for signs alone is the threshold of the binary convolution.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

from ftbnn.packing.graph import BConv, Conv, Epilogue, Fused, Graph, Linear, Operator, Pointwise, RoundedConv, Value

# Of two operators that an addition could join, the first of these: what is left for the other is to be computed before.
_PREFERENCE: tuple[type[Operator], ...] = (BConv, Conv, RoundedConv, Linear, Pointwise)


def fold(graph: Graph) -> Graph:
    """The same function in fewer operators, without those that nothing reads, in an order in which they can run."""
    writer = {operator.output: operator for operator in graph.operators}
    _move_to_thresholds(graph, writer, only_for_signs=True)
    alive = in_order(graph.output, writer)
    reads = Counter(value for operator in alive for value in operator.reads())
    reads[graph.output] += 1
    for step in alive:
        if isinstance(step, Pointwise):
            _join(step, writer, reads)
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
    """x + shift > 0 is x > -shift: what binary convolutions alone read need not be added."""
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
        if (shift := step.epilogue.only_shift) is None:
            continue
        for conv in signed[step.output]:
            conv.inputs = step.inputs
            conv.threshold = -shift if conv.threshold is None else conv.threshold - shift
            conv.folded += (step.path, *step.folded)


def _join(step: Pointwise, writer: dict[Value, Operator], reads: Counter[Value]) -> None:
    """Makes a pointwise operator the end of the one before it, if nothing else reads what lies between."""
    candidates = []
    for value, epilogue in _views(step):
        before = writer.get(value)
        if isinstance(before, Fused) and reads[value] == 1:
            joined = then(before.epilogue, epilogue)
            if joined is not None:
                candidates.append((_PREFERENCE.index(type(before)), before, joined))
    if candidates:
        _, before, epilogue = min(candidates, key=lambda candidate: candidate[0])
        before.epilogue = epilogue
        before.folded += (step.path, *step.folded)
        before.output = step.output
        writer[step.output] = before


def _views(step: Pointwise) -> Iterator[tuple[Value, Epilogue]]:
    """The operator as its input's epilogue; a plain addition is as well that of its shortcut."""
    value, epilogue = step.inputs[0], step.epilogue
    yield value, epilogue
    if epilogue.shortcut is not None and epilogue.scale is None and epilogue.shift is None:
        yield epilogue.shortcut, replace(epilogue, shortcut=value)


def then(first: Epilogue, second: Epilogue) -> Epilogue | None:
    """Both epilogues as one, or None where the order of steps does not allow it."""
    is_over = first.act != "none" or first.after is not None
    if is_over and (more := second.only_shift) is not None:
        return replace(first, after=more if first.after is None else first.after + more)
    if is_over or (first.shortcut is not None and (second.scale is not None or second.shortcut is not None)):
        return None
    scale, shift = first.scale, first.shift
    if second.scale is not None:
        scale = second.scale if scale is None else scale * second.scale
        shift = None if shift is None else shift * second.scale
    if second.shift is not None:
        shift = second.shift if shift is None else shift + second.shift
    shortcut = first.shortcut if first.shortcut is not None else second.shortcut
    return replace(second, scale=scale, shift=shift, shortcut=shortcut)
