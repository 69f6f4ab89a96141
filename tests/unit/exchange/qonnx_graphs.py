"""Small QONNX networks made by hand, without the packages that make them elsewhere."""

import numpy as np

from ftbnn.exchange.qonnx_export import _attribute, _info
from ftbnn.exchange.qonnx_import import file_images, import_qonnx
from ftbnn.exchange.qonnx_lower import lower
from ftbnn.exchange.qonnx_model import parse
from ftbnn.exchange.qonnx_proto import encode, tensor_of
from ftbnn.exchange.qonnx_reference import run
from ftbnn.runtime import load


class Net:
    """`x` is the name of the last tensor; `add` puts a node behind it."""

    def __init__(self, *shape, batch="N"):
        self.shape, self.x = [batch, *shape], "x"
        self.nodes, self.tensors = [], []

    def const(self, array):
        name = f"c{len(self.tensors)}"
        array = np.asarray(array)
        self.tensors.append(tensor_of(name, array if array.dtype.kind == "i" else array.astype(np.float32)))
        return name

    def add(self, op, *constants, inputs=None, outputs=1, domain=None, **attributes):
        """Inputs are names, or `x` and constants."""
        given = inputs or [self.x, *(it if isinstance(it, str) else self.const(it) for it in constants)]
        number = len(self.nodes)
        made = [f"t{number}" if outputs == 1 else f"t{number}_{k}" for k in range(outputs)]
        attribute = [_attribute(name, value) for name, value in attributes.items()]
        node = {"op_type": op, "name": f"{op}_{number}", "input": given, "output": made, "attribute": attribute}
        self.nodes.append(node if domain is None else node | {"domain": domain})
        self.x = made[0]
        return self.x

    def message(self):
        graph = {
            "name": "made by hand",
            "node": self.nodes,
            "initializer": self.tensors,
            "input": [_info("x", self.shape)],
            "output": [_info(self.x, ["N"])],
        }
        return {"ir_version": 8, "opset_import": [{"version": 17}], "graph": graph}

    def bytes(self):
        return self.encoded(self.message())

    @staticmethod
    def encoded(message):
        return encode("Model", message)


def numbers(rng, shape, unit=0.25, most=8):
    """Multiples of a power of two, so that floats are exact in any order."""
    return (rng.integers(-most, most + 1, shape) * unit).astype(np.float32)


def outputs(net, tmp_path, images):
    """(by the nodes, by the engine, the file's graph)"""
    data = net.bytes()
    model = parse(data)
    lowered = lower(model)
    import_qonnx(data, tmp_path / "net.ftbnn", samples=images)
    found = load(tmp_path / "net.ftbnn")(file_images(lowered, images))
    return run(model, images).reshape(len(images), -1), found, lowered.graph


def check(net, tmp_path, seed=0, count=32, unit=0.25):
    """The engine gives what the nodes give, to the last bit; returns the file's operators."""
    images = numbers(np.random.default_rng(seed), (count, *net.shape[1:]), unit)
    expected, found, graph = outputs(net, tmp_path, images)
    assert np.array_equal(expected, found), np.abs(expected - found).max()
    return graph.operators
