"""An imported file beside the nodes it was made of, tensor by tensor: exact, or refused with the node that is not.

Two engines that add real numbers in another order may see another sign next to 0, and everything behind it differs. So
outputs alone prove nothing. Here every node is given what the engine has made of its inputs, and must come to what the
engine has made of its output: whole numbers, codes and functions of single numbers exactly, sums of real numbers up to
what rounding can do to them, by the error bound of floating-point sums that runs along. A code is then the node's own
code of the number that the engine has.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ftbnn.exchange.qonnx_feature import Feature
from ftbnn.exchange.qonnx_functions import apply
from ftbnn.exchange.qonnx_lower import Lowered, needed
from ftbnn.exchange.qonnx_model import OnnxModel
from ftbnn.exchange.qonnx_node import Array, ImportRefused, Node
from ftbnn.exchange.qonnx_reference import evaluate, norm_factors, norm_sides
from ftbnn.packing.fold import in_order
from ftbnn.packing.graph import Graph, Value
from ftbnn.packing.write import InputInfo, encode
from ftbnn.runtime import load

EPS = 2.0**-24  # half a step of float32 at 1
STEPS = 8  # roundings that one function of a number may be made of, in either engine
CURVE = 2.0**-18  # of sigmoid and tanh, which engines take from series of their own
ORDER = 16  # more terms than a sum has, for transforms that compute it another way


@dataclass(frozen=True)
class Agreement:
    """Over `samples`: how many tensors were compared, and how the outputs of both engines compare end to end."""

    samples: int
    tensors: int
    same_class: float  # share, 0 to 1; outputs that are the same but for rounding are tied
    same_outputs: float  # share of samples whose outputs are the same but for rounding
    largest_error: float  # relative to the largest output of the sample


ROUNDING = 1e-5  # of outputs that are the same but for the order of sums


def check(
    model: OnnxModel, lowered: Lowered, info: InputInfo, samples: Array, to_images: Callable[[Array], Array]
) -> Agreement:
    """Raises ImportRefused at the first tensor that the file does not hold."""
    batch = _batch(model)
    model = replace(model, nodes=tuple(needed(model.nodes, lowered.output)))
    rows = max(len(samples) // batch * batch, batch)
    samples = np.resize(samples, (rows, *samples.shape[1:]))
    tensors = _tensors(lowered, info, to_images(samples))
    model = _settled(model)
    compared, ends = 0, []
    for first in range(0, rows, batch):
        part = slice(first, first + batch)
        held = {name: [form[part] for form in forms] for name, forms in tensors.items()}
        compared = _compare(model, lowered, held, samples[part])
        ends.append(_run(model, samples[part], lowered.output).reshape(batch, -1))
    expected, found = np.concatenate(ends), tensors[lowered.output][0].reshape(rows, -1)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(expected).max(axis=1), np.finfo(np.float32).tiny)
        errors = np.abs(found - expected).max(axis=1) / size
    chosen = np.take_along_axis(expected, found.argmax(1)[:, None], 1)[:, 0]
    same = chosen >= expected.max(axis=1) - ROUNDING * size
    return Agreement(rows, compared, float(same.mean()), float((errors <= ROUNDING).mean()), float(errors.max()))


def _batch(model: OnnxModel) -> int:
    """How many images the nodes take at a time: as many as the network was written for where a shape names that number.

    Files made from a whole data set are written for hundreds of thousands, and mostly no node minds."""
    written = model.shape[0] or 1
    attributes = (
        value for node in model.nodes for value in node.attributes.values() if isinstance(value, list | tuple)
    )
    constants = (array for array in model.constants.values() if array.dtype.kind == "i" and array.ndim == 1)
    is_named = any(len(shape) and shape[0] == written for shape in (*attributes, *constants))
    return written if is_named else 1


def _settled(model: OnnxModel) -> OnnxModel:
    """What no image changes computed once."""
    constants, nodes = dict(model.constants), []
    for node in model.nodes:
        if all(name in constants or not name for name in node.inputs):
            inputs = [constants.get(name) for name in node.inputs]
            constants.update(zip(node.outputs, evaluate(node, inputs), strict=False))
        else:
            nodes.append(node)
    return replace(model, constants=constants, nodes=tuple(nodes))


def _tensors(lowered: Lowered, info: InputInfo, images: Array) -> dict[str, list[Array]]:
    """Those tensors of the network that values of the file stand for, as the engine computes them: several times, where
    some readers take what comes before a function and others what comes behind it."""
    graph, info = lowered.graph, replace(info, class_names=())
    writer = {operator.output: operator for operator in graph.operators}
    known: dict[Value, Array] = {graph.input: images}
    made: dict[str, list[Array]] = {}
    for name, features in lowered.tensors.items():
        for feature in features:
            value = feature.value
            if feature.is_open or (value not in writer and value is not graph.input):
                continue
            if value not in known:
                head = Graph(graph.input, value, tuple(in_order(value, writer)))
                known[value] = load(encode(head, info))(images)
            form = _tensor(feature, known[value].reshape(len(images), value.channels, -1))
            made.setdefault(name, []).append(form)
    return made


def _tensor(feature: Feature, numbers: Array) -> Array:
    """What the functions make of the value's numbers (N, channels, pixels), in the tensor's shape."""
    y = np.moveaxis(apply(feature.functions, np.moveaxis(numbers, 1, -1)), -1, 1)
    return y.reshape(len(y), -1)[:, feature.numbers().ravel()].reshape(len(y), *feature.shape)


def _run(model: OnnxModel, x: Array, output: str) -> Array:
    """The network's own nodes, end to end."""
    values: dict[str, Array | None] = {"": None, **model.constants, model.input: np.asarray(x, np.float32)}
    for node in model.nodes:
        values.update(zip(node.outputs, evaluate(node, [values[name] for name in node.inputs]), strict=False))
    found = values[output]
    assert found is not None
    return found


def _compare(model: OnnxModel, lowered: Lowered, held: Mapping[str, list[Array]], x: Array) -> int:
    values: dict[str, Array | None] = {"": None, **model.constants, model.input: np.asarray(x, np.float32)}
    fixed = {"", *model.constants}  # and sizes of tensors
    errors: dict[str, Array] = {}  # of tensors that may differ
    compared = 0
    for node in model.nodes:
        inputs = [values[name] for name in node.inputs]
        made = evaluate(node, inputs)
        values.update(zip(node.outputs, made, strict=False))
        if node.op == "Shape" or fixed.issuperset(node.inputs):
            fixed.update(node.outputs)
            continue
        given = [errors.get(name) for name in node.inputs]
        found_bounds = _bounds(node, inputs, given, made, is_whole=node.outputs[0] in lowered.whole)
        bounds: Errors = found_bounds or [None] * len(made)
        for name, tensor, bound in zip(node.outputs, made, bounds, strict=False):
            if name in held:
                first, *others = (form.reshape(tensor.shape) for form in held[name])
                for form in (first, *others):
                    _require(node, form, tensor, 0.0 if bound is None else bound)
                values[name] = first
                if others:
                    errors[name] = np.max([np.abs(form.astype(np.float64) - first) for form in others], axis=0)
                compared += 1
            elif bound is not None:
                errors[name] = bound
    return compared


def _require(node: Node, found: Array, expected: Array, bound: Array | float) -> None:
    off = np.abs(found.astype(np.float64) - expected)
    wrong = ~(off <= bound)
    if wrong.any():
        most = float(np.nan_to_num(off[wrong], nan=np.inf).max())
        raise ImportRefused(
            node, f"the file gives other numbers for {wrong.mean():.2%} of its output, by up to {most:.3g}"
        )


# How far two engines may be apart, given how far the inputs are: None where they cannot be.
Errors = Sequence[Array | None]
PASSING = frozenset(
    "Cast Concat Dropout Flatten Gather GlobalMaxPool Identity Im2Col MaxPool Pad Reshape Slice Split Squeeze "
    "Transpose Unsqueeze".split()
)
AVERAGES = ("AveragePool", "GlobalAveragePool", "ReduceMean")
PRODUCTS = ("Conv", "Gemm", "MatMul")
CURVES = ("HardSigmoid", "HardSwish", "Sigmoid", "Tanh")
STEEPEST = 1.5  # of HardSwish


def _bounds(node: Node, inputs: Errors, errors: Errors, made: list[Array], *, is_whole: bool) -> list[Array] | None:
    x, e = inputs[0], errors[0]
    if node.op in PASSING:
        return None if all(error is None for error in errors) else _passed(node, inputs, errors)
    (y,) = made
    assert x is not None
    size = np.abs(y.astype(np.float64))  # of -128 in eight bits there is none
    if node.op in PRODUCTS:
        return [_product(node, inputs, errors, is_whole) + 2 * EPS * size]
    if node.op in AVERAGES:
        terms = math.prod(node.get("kernel_shape", [])) if node.op == "AveragePool" else x.size // max(y.size, 1)
        spread = _or_zero(x, e) + (terms + ORDER) * EPS * np.abs(x).astype(np.float64)
        return [evaluate(node, [spread, *inputs[1:]])[0] + 2 * EPS * size]
    return [_elementwise(node, inputs, errors, y)]


def _passed(node: Node, inputs: Errors, errors: Errors) -> list[Array]:
    """Where elements only move, or the largest is taken, so do the errors; what is padded has none."""
    data = range(len(inputs)) if node.op == "Concat" else (0,)
    given = [_or_zero(x, e) if k in data else x for k, (x, e) in enumerate(zip(inputs, errors, strict=True))]
    node = replace(node, attributes=node.attributes | {"value": 0.0, "pad_value": 0})
    if node.op == "Pad":
        given = [None if k == 2 else it for k, it in enumerate(given)]
    return evaluate(node, given)


def _or_zero(x: Array | None, error: Array | None) -> Array:
    assert x is not None
    return np.zeros(x.shape) if error is None else error


def _product(node: Node, inputs: Errors, errors: Errors, is_whole: bool) -> Array:
    """Of n terms in any order: n roundings of the sum of their sizes. Of whole numbers times a unit only the unit
    rounds, and that of each part, where parts are scaled before they are added: less than one whole number."""
    x, weight, *bias = inputs
    assert x is not None
    assert weight is not None
    terms = weight[0].size if node.op == "Conv" else x.shape[-1]
    each = STEPS * EPS if is_whole else (terms + ORDER) * EPS
    spread = np.abs(x).astype(np.float64) * each
    other = np.abs(weight).astype(np.float64)
    bound = np.abs(evaluate(node, [spread + _or_zero(x, errors[0]), other])[0]).astype(np.float64)
    if errors[1] is not None:  # a product of two tensors
        bound = bound + np.abs(evaluate(node, [np.abs(x) + _or_zero(x, errors[0]), errors[1]])[0])
    if bias and bias[0] is not None:
        bound = bound + 2 * EPS * float(np.abs(bias[0]).max() * abs(node.get("beta", 1.0)))
    return bound


def _elementwise(node: Node, inputs: Errors, errors: Errors, y: Array) -> Array:
    given = [np.abs(np.asarray(it, np.float64)) for it in inputs if it is not None]
    moved = [_or_zero(x, e) for x, e in zip(inputs, errors, strict=True) if x is not None]
    rounding = STEPS * EPS * np.abs(y.astype(np.float64))
    if node.op in ("Add", "Sub"):
        return np.asarray(rounding + sum(moved) + STEPS * EPS * sum(given))
    if node.op in ("Div", "Mul"):
        if node.op == "Div":
            with np.errstate(divide="ignore"):
                given[1] = 1 / given[1]
        first, second = given
        return np.asarray(rounding + moved[0] * second + moved[1] * first + moved[0] * moved[1])
    if node.op == "BatchNormalization":
        sides = norm_sides(node, y.ndim)
        numbers = [it for it in inputs[1:] if it is not None]
        factor, offset = (np.abs(it).reshape(sides) for it in norm_factors(node, *numbers))
        return np.asarray(rounding + moved[0] * factor + STEPS * EPS * (given[0] * factor + offset))
    if node.op in ("HardSwish", "LeakyRelu", "PRelu"):
        slope = given[1] if len(given) > 1 else np.float64(abs(node.get("alpha", STEEPEST)))
        # A HardSwish of small numbers is one of x + 3, which has their last bits no more.
        return np.asarray(rounding + moved[0] * np.maximum(slope, STEEPEST) + STEPS * EPS * given[0])
    x = inputs[0]
    assert x is not None
    around = [evaluate(node, [(x + sign * moved[0]).astype(np.float32), *inputs[1:]])[0] for sign in (-1, 1)]
    reach = np.maximum(*(np.abs(it.astype(np.float64) - y) for it in around))
    return np.asarray(rounding + reach + (CURVE if node.op in CURVES else 0.0))
