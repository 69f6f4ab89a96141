"""A QONNX file as nodes and constants: checked, in an order in which they can run, only what the output needs."""

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ftbnn.errors import UserError
from ftbnn.exchange.qonnx_domains import standard
from ftbnn.exchange.qonnx_node import LONGEST_NAME, MOST_ELEMENTS, Array, ImportRefused, Node
from ftbnn.exchange.qonnx_proto import FLOAT, Message, array_of, decode
from ftbnn.text import line

MOST_BYTES = 2**31
MOST_NODES = 2**14


@dataclass(frozen=True)
class OnnxModel:
    """`shape` is that of the input; None where the file leaves it open."""

    name: str
    nodes: tuple[Node, ...]
    constants: dict[str, Array]
    input: str
    shape: tuple[int | None, ...]
    output: str
    metadata: dict[str, str]


def read_bytes(path: Path) -> bytes:
    """A regular file's bytes, and no others."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise UserError(f"cannot read {path}: it is not a file")
        if facts.st_size > MOST_BYTES:
            raise UserError(f"cannot read {path}: {facts.st_size} bytes are more than an ONNX file may have")
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def parse(data: bytes) -> OnnxModel:
    """Raises UserError in one line for everything that is not as it should be."""
    message = decode(data)
    graph = message["graph"]
    if graph is None or not graph["node"]:
        raise UserError("this is not a whole ONNX file: it has no graph of nodes")
    if graph["sparse_initializer"]:
        raise ImportRefused(None, "it has sparse initializers")
    if len(graph["node"]) > MOST_NODES:
        raise ImportRefused(None, f"it has {len(graph['node'])} nodes; at most {MOST_NODES} are read")
    opsets = {"ai.onnx" if not it["domain"] else it["domain"]: it["version"] for it in message["opset_import"]}
    nodes = [_node(it, opsets) for it in graph["node"]]
    constants = {}
    for tensor in graph["initializer"]:
        constants[tensor["name"]] = _floats(array_of(tensor))
    inputs = [it for it in graph["input"] if it["name"] not in constants]
    if len(inputs) != 1 or len(graph["output"]) != 1:
        counts = f"{len(inputs)} inputs and {len(graph['output'])} outputs"
        raise ImportRefused(None, f"it has {counts}; a .ftbnn file has one input and one output")
    name, output = inputs[0]["name"], graph["output"][0]["name"]
    ordered = _in_order(standard(nodes, constants), {name, *constants}, output)
    return OnnxModel(
        name=line(graph["name"]),
        nodes=tuple(ordered),
        constants=constants,
        input=name,
        shape=_shape(inputs[0]),
        output=output,
        metadata={it["key"]: it["value"] for it in message["metadata_props"]},
    )


def _floats(array: Array) -> Array:
    """Real numbers are float32 from here on, as a file's are."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32) if array.dtype.kind == "f" else array


def _node(message: Message, opsets: dict[str, int]) -> Node:
    domain = message["domain"] or "ai.onnx"
    names = tuple(message["input"]), tuple(message["output"])
    node = Node(message["op_type"], message["name"], *names, opset=opsets.get(domain, 1), domain=message["domain"])
    for attribute in message["attribute"]:
        if attribute["ref_attr_name"]:
            raise ImportRefused(node, "its attributes are those of a function around it")
        node.attributes[attribute["name"]] = _attribute(attribute)
    return node


# ONNX's numbers of the types of attributes.
_ATTRIBUTES = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings"}


def _attribute(message: Message) -> Any:
    kind = _ATTRIBUTES.get(message["type"])
    if kind is None:  # old files do not say
        given = [name for name in _ATTRIBUTES.values() if message[name]]
        kind = given[0] if given else "i"
    found = message[kind]
    if kind == "t":
        return None if found is None else _floats(array_of(found))
    return found.decode(errors="replace") if kind == "s" else found


def _shape(info: Message) -> tuple[int | None, ...]:
    kind = (info["type"] or {}).get("tensor_type")
    name = line(info["name"], LONGEST_NAME)
    if kind is None or kind["shape"] is None:
        raise ImportRefused(None, f"its input {name!r} has no shape")
    if kind["elem_type"] != FLOAT:
        raise ImportRefused(None, f"its input {name!r} is not float32")
    dims = tuple(dim["dim_value"] or None for dim in kind["shape"]["dim"])
    if not 2 <= len(dims) <= 4 or any(dim is not None and dim < 1 for dim in dims) or None in dims[1:]:
        raise ImportRefused(
            None, f"its input {name!r} has the shape {_spoken(dims)}; images have (N, C, H, W), all known"
        )
    size = 1
    for dim in dims[1:]:
        size *= dim or 1
    if size > MOST_ELEMENTS:
        raise ImportRefused(None, f"its input {name!r} has {size} elements; at most {MOST_ELEMENTS} are read")
    return dims


def _spoken(dims: Iterable[int | None]) -> str:
    return f"({', '.join('?' if dim is None else str(dim) for dim in dims)})"


def _in_order(nodes: list[Node], known: set[str], output: str) -> list[Node]:
    """The nodes that the output needs, each behind those it reads from. Raises for cycles and lacking tensors."""
    writer: dict[str, Node] = {}
    for it in nodes:
        for name in it.outputs:
            if name and (name in writer or name in known):
                raise ImportRefused(it, f"it writes {line(name, LONGEST_NAME)!r}, which is written already")
            writer[name] = it
    done: dict[int, Node] = {}
    under_way: set[int] = set()
    open_names: list[tuple[str, Node | None]] = [(output, None)]
    while open_names:
        name, reader = open_names[-1]
        if name in known or not name:
            open_names.pop()
            continue
        node = writer.get(name)
        if node is None:
            raise ImportRefused(reader, f"nothing writes {line(name, LONGEST_NAME)!r}")
        if id(node) in done:
            open_names.pop()
            continue
        missing = [it for it in node.inputs if it and it not in known and id(writer.get(it)) not in done]
        if not missing:
            done[id(node)] = node
            under_way.discard(id(node))
            open_names.pop()
            continue
        if id(node) in under_way:
            raise ImportRefused(node, "it reads what depends on its own output")
        under_way.add(id(node))
        open_names.extend((it, node) for it in missing)
    return list(done.values())
