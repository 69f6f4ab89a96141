"""The text of each step of a C program: the operands of one function of the headers in `c/`."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ftbnn.exchange.c_forms import Code, Step
from ftbnn.exchange.c_program import Program
from ftbnn.exchange.c_stem import Stem
from ftbnn.packing.graph import (
    AverageTo,
    AvgPool,
    BConv,
    Channels,
    Combine,
    Concat,
    Conv,
    Flatten,
    Fused,
    Linear,
    Map,
    MaxPool,
    Operator,
    Pointwise,
    RoundedConv,
    Steps,
    Value,
    Window,
)

Fields = dict[str, str | None]
Texts = Iterator[str]


def call(program: Program, step: Step) -> str:
    """A block that does the step."""
    assert step.operator is not None
    lines = [*CALLS[type(step.operator)](program, step), *more_codes(program, step)]
    about = f"{step.operator.title} to {_shape(step.output)}"
    return block(f"{comment(step.operator.path)}: {about}", lines)


def block(about: str, lines: list[str]) -> str:
    return "\n".join([f"  {{ /* {about} */", *(f"    {line}" for line in lines), "  }\n"])


def comment(text: str) -> str:
    """What a file says, where it can do no harm."""
    return re.sub(r"[^A-Za-z0-9_. -]", "_", text)[:100] or "-"


def load_u8(program: Program) -> list[str]:
    """How an 8-bit image comes in: as a stem does it, or by itself."""
    step = program.image
    if program.stem is not None:
        return [*_stem(program, program.stem, program.steps[0]), *more_codes(program, program.steps[0])]
    if program.pixel_limits is not None:
        limits = program.constants.integers(program.pixel_limits)
        return [_map_text(step.output), f"ftbnn_load_u8_codes(image, map, {limits}, {program.at(step.codes[0])});"]
    scale, shift = program.constants.floats(program.scale), program.constants.floats(program.shift)
    start = [_map_text(step.output), out(program, step), f"ftbnn_load_u8(image, map, {scale}, {shift}, &out);"]
    return [*start, *more_codes(program, step)]


def load_f32(program: Program) -> list[str]:
    step = program.image
    start = [_map_text(step.output), out(program, step), "ftbnn_load_f32(image, map, &out);"]
    return [*start, *more_codes(program, step)]


def _stem(program: Program, stem: Stem, step: Step) -> Texts:
    operator, integers = stem.operator, program.constants.integers
    fields: Fields = _sides(operator, operator.window)
    fields[f"weights_{operator.bits}"] = integers(_by_taps(operator.integers))
    fields |= {"order": integers(stem.order), "ratio": program.constants.floats(stem.ratio)}
    yield struct("stem", "op", fields | {"rows": integers(stem.rows), "columns": integers(stem.columns)})
    if (limits := program.limits(step)) is not None:
        low, high = map(integers, limits)
        yield f"ftbnn_stem_codes(&op, image, {low}, {high}, {program.at(step.codes[0])});"
        return
    yield tail(
        program, replace(operator, epilogue=replace(operator.epilogue, scale=stem.scale.astype(np.float64), shift=None))
    )
    yield out(program, step)
    yield f"ftbnn_stem(&op, image, {program.constants.floats(stem.offsets)}, &tail, &out);"


def more_codes(program: Program, step: Step) -> Texts:
    """A value whose codes convolutions make with several thresholds: all but the first come from its numbers."""
    for number, code in enumerate(step.codes[1:]):
        fields: Fields = {"codes": program.at(code), "threshold": program.constants.floats(code.numbers)}
        yield struct("out", f"more_{number}", fields)
        yield struct("tail", f"as_it_is_{number}", {"act": "FTBNN_NONE"})
        where = f"{program.at(step.output)}, (struct ftbnn_map){_map(step.output)}"
        yield f"ftbnn_pointwise({where}, &as_it_is_{number}, &more_{number});"


def struct(kind: str, name: str, fields: Fields) -> str:
    given = ", ".join(f".{field} = {value}" for field, value in fields.items() if value is not None)
    return f"static const struct ftbnn_{kind} {name} = {{{given}}};"


def out(program: Program, step: Step) -> str:
    code = step.codes[0] if step.codes else None
    fields: Fields = {"real": program.at(step.output) if step.real else None}
    if code is not None:
        fields |= {"codes": program.at(code), "threshold": program.constants.floats(code.numbers)}
    return struct("out", "out", fields)


def tail(program: Program, operator: Fused) -> str:
    end, floats = operator.epilogue, program.constants.floats
    fields: Fields = {"scale": floats(end.scale), "shift": floats(end.shift)}
    fields["shortcut"] = None if end.shortcut is None else program.at(end.shortcut)
    fields |= {"act": f"FTBNN_{end.act.upper()}", "left": floats(end.left), "right": floats(end.right)}
    if end.act == "clamp":
        fields |= {"low": number(end.low), "high": number(end.high)}
    fields |= {"first_left": floats(end.first_left), "first_right": floats(end.first_right)}
    return struct("tail", "tail", fields | {"after": floats(end.after)})


def number(value: float) -> str:
    """Exactly the float32 that it is."""
    return f"{float(np.float32(value)).hex()}f"


def _map(value: Value) -> str:
    return f"{{{value.height}, {value.width}, {value.channels}}}"


def _map_text(value: Value) -> str:
    return f"const struct ftbnn_map map = {_map(value)};"


def _shape(value: Value) -> str:
    return f"{value.channels} x {value.height} x {value.width}"


def _sides(operator: Operator, window: Window | None) -> Fields:
    fields: Fields = {"from": _map(operator.inputs[0]), "to": _map(operator.output)}
    if window is not None:
        fields["window"] = f"{{{', '.join(map(str, (*window.kernel, *window.stride, *window.padding)))}}}"
    return fields


def _bconv(program: Program, step: Step) -> Texts:
    operator = step.operator
    assert isinstance(operator, BConv)
    rows = [part.transpose(0, 2, 3, 1).reshape(len(part), -1) for part in operator.positive]
    fields: Fields = {"in": program.at(step.reads[0]), **_sides(operator, operator.window)}
    fields |= {"groups": str(operator.groups), "zero_one": str(int(operator.zero_one))}
    fields |= {"weights": program.constants.bits(rows), "under": "arena.under", "inside": "arena.inside"}
    yield struct("bconv", "op", fields)
    if (limits := program.limits(step)) is not None:
        low, high = map(program.constants.integers, limits)
        yield f"ftbnn_bconv_codes(&op, {low}, {high}, {program.at(step.codes[0])});"
        return
    yield tail(program, operator)
    yield out(program, step)
    yield "ftbnn_bconv(&op, &tail, &out);"


def _conv(program: Program, step: Step) -> Texts:
    operator = step.operator
    assert isinstance(operator, Conv | RoundedConv | Linear)
    fields: Fields = {"in": program.at(operator.inputs[0])}
    if isinstance(operator, Linear):
        fields |= {**_sides(operator, Window((1, 1), (1, 1), (0, 0))), "groups": "1"}
        fields["weights"] = program.constants.floats(operator.weight.ravel())
    else:
        fields |= {**_sides(operator, operator.window), "groups": str(operator.groups)}
    if isinstance(operator, Conv):
        fields["weights"] = program.constants.floats(_by_taps(operator.weights))
    elif isinstance(operator, RoundedConv):
        fields[f"weights_{operator.bits}"] = program.constants.integers(_by_taps(operator.integers))
        fields["unit"] = program.constants.floats(operator.unit)
    yield struct("conv", "op", fields)
    yield tail(program, operator)
    yield out(program, step)
    yield "ftbnn_conv(&op, &tail, &out);"


def _by_taps(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([np.asarray(part).transpose(0, 2, 3, 1).ravel() for part in parts])


def _steps(program: Program, step: Step) -> Texts:
    operator = step.operator
    assert isinstance(operator, Steps)
    thresholds = program.constants.floats(operator.thresholds)
    yield out(program, step)
    where = f"{program.at(operator.inputs[0])}, (struct ftbnn_map){_map(step.output)}"
    yield f"ftbnn_steps({where}, {thresholds}, {operator.count}, {int(operator.rows > 1)}, &out);"


def _combine(program: Program, step: Step) -> Texts:
    operator = step.operator
    assert isinstance(operator, Combine)
    first, second = (program.at(value) for value in operator.inputs)
    yield out(program, step)
    sides = f"(struct ftbnn_map){_map(step.output)}, (struct ftbnn_map){_map(operator.inputs[1])}"
    yield f"ftbnn_combine({first}, {second}, {sides}, {int(operator.is_sum)}, &out);"


def _map_factors(program: Program, step: Step) -> Texts:
    operator = step.operator
    assert isinstance(operator, Map)
    factors = program.constants.floats(operator.factors)
    yield out(program, step)
    where = f"{program.at(operator.inputs[0])}, (struct ftbnn_map){_map(step.output)}"
    yield f"ftbnn_map_factors({where}, {factors}, &out);"


def _pointwise(program: Program, step: Step) -> Texts:
    operator = step.operator
    assert isinstance(operator, Pointwise)
    yield tail(program, operator)
    yield out(program, step)
    yield f"ftbnn_pointwise({program.at(operator.inputs[0])}, (struct ftbnn_map){_map(step.output)}, &tail, &out);"


def _pool(program: Program, step: Step) -> Texts:
    operator = step.operator
    assert isinstance(operator, MaxPool | AvgPool | AverageTo)
    window = None if isinstance(operator, AverageTo) else operator.window
    fields: Fields = {"in": program.at(step.reads[0]), **_sides(operator, window)}
    if step.in_codes:
        yield struct("pool_codes", "op", fields)
        yield f"ftbnn_max_pool_codes(&op, {program.at(step.codes[0])});"
        return
    if isinstance(operator, AvgPool) and operator.whole:
        fields["divisor"] = number(operator.window.kernel[0] * operator.window.kernel[1])
    yield struct("pool", "op", fields)
    yield out(program, step)
    yield f"ftbnn_{POOLS[type(operator)]}(&op, &out);"


def _move(program: Program, step: Step) -> Texts:
    operator = step.operator
    assert operator is not None
    kind, runs = "codes" if step.in_codes else "real", []
    for read in step.reads:
        value = read.value if isinstance(read, Code) else read
        for first, count in _runs(operator, value):
            fields = {kind: program.at(read), "channels": value.channels, "first": first, "count": count}
            runs.append("{" + ", ".join(f".{field} = {given}" for field, given in fields.items()) + "}")
    yield "static const struct ftbnn_run runs[] = {"
    yield from (f"    {run}," for run in runs)
    yield "};"
    sizes = f"runs, {len(runs)}, {step.output.height * step.output.width}"
    if step.in_codes:
        yield f"ftbnn_move_codes({sizes}, {program.at(step.codes[0])});"
        return
    yield out(program, step)
    yield f"ftbnn_move({sizes}, &out);"


def _runs(operator: Operator, value: Value) -> Iterator[tuple[int, int]]:
    """Neighbouring channels that stay neighbours: the first one, and how many."""
    source = operator.source if isinstance(operator, Channels) else np.arange(value.channels)
    starts = np.flatnonzero(np.diff(source, prepend=source[0]) != 1)
    for first, last in zip(starts, [*starts[1:], len(source)], strict=True):
        yield int(source[first]), int(last - first)


def _flatten(program: Program, step: Step) -> Texts:
    assert step.operator is not None
    given = f"{program.at(step.reads[0])}, (struct ftbnn_map){_map(step.operator.inputs[0])}"
    if step.in_codes:
        yield f"ftbnn_flatten_codes({given}, {program.at(step.codes[0])});"
        return
    yield out(program, step)
    yield f"ftbnn_flatten({given}, &out);"


POOLS: dict[type[Operator], str] = {MaxPool: "max_pool", AvgPool: "average_pool", AverageTo: "average_to"}
CALLS: dict[type[Operator], Callable[[Program, Step], Texts]] = {
    Conv: _conv,
    RoundedConv: _conv,
    Linear: _conv,
    BConv: _bconv,
    Pointwise: _pointwise,
    MaxPool: _pool,
    AvgPool: _pool,
    AverageTo: _pool,
    Concat: _move,
    Channels: _move,
    Flatten: _flatten,
    Steps: _steps,
    Combine: _combine,
    Map: _map_factors,
}
