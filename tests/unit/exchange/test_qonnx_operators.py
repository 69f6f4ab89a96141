"""Every operator of QONNX, with its attributes, as the `qonnx` package itself computes it."""

import numpy as np
import pytest
from qonnx_graphs import Net, numbers

from ftbnn.exchange.qonnx_import import file_images, import_qonnx
from ftbnn.exchange.qonnx_lower import lower
from ftbnn.exchange.qonnx_model import parse
from ftbnn.exchange.qonnx_node import ImportRefused
from ftbnn.runtime import load

onnx = pytest.importorskip("onnx")
pytest.importorskip("qonnx")
pytestmark = pytest.mark.filterwarnings("ignore")

from qonnx.core.modelwrapper import ModelWrapper  # noqa: E402
from qonnx.core.onnx_exec import execute_onnx  # noqa: E402
from qonnx.transformation.infer_shapes import InferShapes  # noqa: E402

OWN = ("BipolarQuant", "DebugMarker", "IntQuant", "MaxPoolNHWC", "MultiThreshold", "Quant", "QuantAvgPool2d", "Trunc")
OWN += ("XnorPopcountMatMul",)
RANDOM = np.random.default_rng(0)


def signs(*shape):
    return RANDOM.choice([-1.0, 1.0], shape)


def quant(scale=0.5, zero=0.0, bits=3.0, op="Quant", **attributes):
    return lambda net: net.add(
        op, scale, zero, bits, **{"signed": 1, "narrow": 0, "rounding_mode": "ROUND"} | attributes
    )


def weights(bits, **attributes):
    """A layer whose weights are quantised within the file."""

    def add(net):
        x = net.add("BipolarQuant", 1.0)
        given = [net.const(RANDOM.normal(size=(5, 4, 3, 3))), net.const(0.25), net.const(0.0), net.const(bits)]
        weight = net.add("Quant", inputs=given, **{"signed": 1, "narrow": 1, "rounding_mode": "ROUND"} | attributes)
        net.add("Conv", inputs=[x, weight], kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    return add


def flat(*steps):
    return lambda net: [net.add("Flatten"), *(step(net) for step in steps)]


def last(op, *constants, **attributes):
    """A node of the domain of channels last, between turns."""

    def add(net):
        net.add("Transpose", perm=[0, 2, 3, 1])
        net.add(op, *constants, domain="qonnx.custom_op.channels_last", **attributes)
        net.add("Transpose", perm=[0, 3, 1, 2])

    return add


MODES = ("ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN", "round")
CASES = {
    **{f"rounding {mode}": quant(rounding_mode=mode) for mode in MODES},
    **{
        f"{bits} bits, signed {signed}, narrow {narrow}": quant(0.25, 0.0, float(bits), signed=signed, narrow=narrow)
        for bits in (1, 2, 4, 8)
        for signed in (0, 1)
        for narrow in (0, 1)
        if bits > 1 or not narrow
    },
    "IntQuant": quant(op="IntQuant"),
    "scale by channel": quant(np.array([0.25, 0.5, 1.0, 2.0]).reshape(1, 4, 1, 1)),
    "zero point": quant(0.5, 2.0, 3.0, signed=0),
    "BipolarQuant": lambda net: net.add("BipolarQuant", np.array([0.5, 1.0, 2.0, 1.0]).reshape(1, 4, 1, 1)),
    **{f"weights of {bits} bits": weights(float(bits)) for bits in (2, 4, 8)},
    "weights of 1 bit": weights(1.0, narrow=0),
    "thresholds": lambda net: net.add("MultiThreshold", np.sort(numbers(RANDOM, (4, 3)), 1), out_dtype="UINT2"),
    "one row, scaled": lambda net: net.add(
        "MultiThreshold", [[-1.0, 0.5]], out_dtype="INT2", out_scale=0.5, out_bias=-1.0
    ),
    "thresholds, channels last": lambda net: (
        net.add("Transpose", perm=[0, 2, 3, 1]),
        net.add("MultiThreshold", np.sort(numbers(RANDOM, (4, 3)), 1), out_dtype="UINT2", data_layout="NHWC"),
        net.add("Transpose", perm=[0, 3, 1, 2]),
    ),
    "thresholds of vectors": flat(lambda net: net.add("MultiThreshold", numbers(RANDOM, (144, 1)), out_dtype="BINARY")),
    "thresholds of three axes": lambda net: (
        net.add("Reshape", np.array([1, 4, 36], np.int64)),
        net.add("Transpose", perm=[0, 2, 1]),
        net.add("MultiThreshold", np.sort(numbers(RANDOM, (4, 2)), 1), out_dtype="UINT2"),
        net.add("Transpose", perm=[0, 2, 1]),
    ),
    "Trunc": lambda net: (quant(1.0, 0.0, 6.0)(net), net.add("Trunc", 1.0, 0.0, 6.0, 4.0, 4.0, rounding_mode="FLOOR")),
    "Trunc, rounded and narrow": lambda net: (
        quant(0.5, 0.0, 6.0)(net),
        net.add("Trunc", 0.5, 0.0, 6.0, 2.0, 4.0, rounding_mode="ROUND", signed=1, narrow=1),
    ),
    "channels last, Conv": last("Conv", signs(6, 3, 3, 4), kernel_shape=[3, 3], strides=[1, 1], dilations=[1, 1],
                                group=1, pads=[1, 1, 1, 1]),
    "channels last, MaxPool": last("MaxPool", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0], ceil_mode=0,
                                   dilations=[1, 1], storage_order=0, auto_pad="NOTSET"),
    "channels last, BatchNormalization": last(
        "BatchNormalization", [1.0, -2.0, 0.5, 1.0], numbers(RANDOM, 4), numbers(RANDOM, 4), np.ones(4), epsilon=0.0,
        momentum=0.5,
    ),
    "MaxPoolNHWC": lambda net: (
        net.add("Transpose", perm=[0, 2, 3, 1]),
        net.add("MaxPoolNHWC", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0]),
        net.add("Transpose", perm=[0, 3, 1, 2]),
    ),
    "QuantAvgPool2d": lambda net: (
        quant(1.0, 0.0, 4.0, signed=0)(net),
        net.add("QuantAvgPool2d", kernel=2, stride=2, ibits=4, obits=4, signed=0),
    ),
    "XnorPopcountMatMul": flat(
        quant(1.0, 0.0, 1.0, signed=0), lambda net: net.add("XnorPopcountMatMul", RANDOM.integers(0, 2, (144, 5)) * 1.0)
    ),
    "Gemm": flat(lambda net: net.add("Gemm", signs(144, 6), numbers(RANDOM, 6), alpha=0.5, beta=2.0)),
    "Gemm, turned": flat(lambda net: net.add("Gemm", signs(6, 144), numbers(RANDOM, 6), transB=1)),
    "MatMul of maps": lambda net: (
        net.add("Transpose", perm=[0, 2, 3, 1]),
        net.add("MatMul", signs(4, 6)),
        net.add("Transpose", perm=[0, 3, 1, 2]),
    ),
    "MatMul from the left": lambda net: (
        net.add("Reshape", np.array([1, 4, 36], np.int64)),
        net.add("BipolarQuant", 1.0),
        net.add("MatMul", inputs=[net.const(signs(5, 4)), net.x]),
    ),
    "joined where channels are last": lambda net: (
        net.add("Transpose", perm=[0, 2, 3, 1]),
        net.add("Concat", net.add("MatMul", signs(4, 3)), inputs=[net.x, "t0"], axis=-1),
        net.add("MatMul", signs(7, 2)),
        net.add("Transpose", perm=[0, 3, 1, 2]),
    ),
    "added where channels are last": lambda net: (
        net.add("Transpose", perm=[0, 2, 3, 1]),
        net.add("Add", net.add("MatMul", signs(4, 4)), inputs=[net.x, "t0"]),
        net.add("Transpose", perm=[0, 3, 1, 2]),
    ),
    "sums of three": lambda net: net.add("Sum", inputs=["x", net.add("Relu"), net.add("Neg")]),
    "Max and Min": lambda net: (net.add("Max", -0.5), net.add("Min", inputs=[net.const(1.25), net.x])),
    "Abs": lambda net: net.add("Abs"),
    "a marker": lambda net: net.add("DebugMarker", export_debug_name="here"),
    **{
        f"{op}, then a choice": lambda net, op=op: (
            net.add(op, numbers(RANDOM, (4, 1, 1))), net.add("Where", 1.0, -1.0), net.add("Conv", signs(5, 4, 3, 3)))
        for op in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    },
    "a choice by channel": lambda net: (
        net.add("Less", inputs=[net.const(0.5), net.x]), net.add("Not"),
        net.add("Where", numbers(RANDOM, (4, 1, 1)), numbers(RANDOM, (4, 1, 1))),
    ),
    "truth values as numbers": lambda net: (
        net.add("Greater", 0.25), net.add("Cast", to=1), net.add("Mul", 2.0), net.add("Sub", 1.0),
        net.add("Conv", signs(5, 4, 3, 3)),
    ),
    **{
        f"{op} before a quantiser": lambda net, op=op: (net.add(op), quant(0.25, 0.0, 3.0)(net))
        for op in ("Celu", "Elu", "Selu", "Softplus", "Softsign")
    },
    "Flatten behind the rows": lambda net: (
        net.add("Transpose", perm=[0, 2, 3, 1]),
        net.add("Flatten"),
        net.add("MatMul", signs(144, 3)),
    ),
    "QDQ": lambda net: (
        net.add("QuantizeLinear", 0.25, np.array(3, np.int8)),
        net.add("DequantizeLinear", 0.25, np.array(3, np.int8)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_as_qonnx_computes_it(case, tmp_path, monkeypatch):
    """Alone, and where a function of single numbers, in front of a sign and a binary convolution."""
    monkeypatch.setattr(onnx, "IR_VERSION", 10)  # onnx may be newer than what ONNX Runtime reads
    net = Net(4, 6, 6, batch=1)
    CASES[case](net)
    message = net.message()
    for node in message["graph"]["node"]:
        node.setdefault("domain", "qonnx.custom_op.general" if node["op_type"] in OWN else "")
    domains = [("qonnx.custom_op.general", 2 if "Trunc" in case else 1), ("qonnx.custom_op.channels_last", 14)]
    message["opset_import"] += [{"domain": name, "version": version} for name, version in domains]
    data = net.encoded(message)
    images = numbers(np.random.default_rng(5), (24, 4, 6, 6), 0.25, 20)
    import_qonnx(data, tmp_path / "net.ftbnn", samples=images)
    found = load(tmp_path / "net.ftbnn")(file_images(lower(parse(data)), images))
    model = ModelWrapper(onnx.load_from_string(data))
    for node in model.graph.node[:1]:
        if node.op_type == "Transpose":  # qonnx infers no shapes in front of its own operators
            model.set_tensor_shape(node.output[0], [1, 6, 6, 4])
    model = model.transform(InferShapes())
    expected = np.stack([execute_onnx(model, {"x": image[None]})[net.x].ravel() for image in images])
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("domain", "reason"),
    [
        ("com.example", r"its domain 'com\.example' is unknown"),
        ("finn.custom_op.fpgadataflow.hls", "it is a layer of FINN's hardware; import the network from before"),
    ],
)
def test_an_unknown_domain_is_refused(domain, reason, tmp_path):
    net = Net(4, 6, 6)
    net.add("Relu", domain=domain)
    with pytest.raises(ImportRefused, match=reason):
        import_qonnx(net.bytes(), tmp_path / "net.ftbnn")
