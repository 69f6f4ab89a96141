"""QONNX networks as files: every operator against the reference, exactly, and what is refused."""

import numpy as np
import pytest
from qonnx_graphs import Net, check, numbers, outputs

from ftbnn.cli.main import main
from ftbnn.errors import UserError
from ftbnn.exchange.qonnx_import import import_qonnx
from ftbnn.exchange.qonnx_lower import lower
from ftbnn.exchange.qonnx_model import parse
from ftbnn.exchange.qonnx_node import ImportRefused
from ftbnn.exchange.qonnx_reference import ROUNDINGS
from ftbnn.packing.graph import BConv, Conv, MaxPool, Pointwise, RoundedConv, Steps


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def signs(rng, *shape):
    return rng.choice([-1.0, 1.0], shape).astype(np.float32)


def norm(net, rng, channels):
    """A BatchNormalization whose numbers are dyadic: deviations are 1/2, 1 or 2; some scales are negative or 0."""
    scale = rng.choice([-2.0, -0.5, 0.5, 1.0, 0.0], channels)
    mean, bias = numbers(rng, channels, 1.0), numbers(rng, channels)
    net.add("BatchNormalization", scale, bias, mean, rng.choice([0.25, 1.0, 4.0], channels), epsilon=0.0)


ACTIVATIONS = {
    "bipolar": lambda net: net.add("BipolarQuant", 1.0),
    "bipolar, scaled": lambda net: net.add("BipolarQuant", 0.5),
    "two bits": lambda net: net.add("Quant", 0.5, 0.0, 2.0, signed=1, narrow=1, rounding_mode="ROUND"),
    "two bits, wide": lambda net: net.add("Quant", 0.5, 0.0, 2.0, signed=1, narrow=0, rounding_mode="ROUND"),
    "two bits, unsigned": lambda net: net.add("Quant", 1.0, 0.0, 2.0, signed=0, narrow=0, rounding_mode="ROUND"),
    "one bit, unsigned": lambda net: net.add("Quant", 1.0, 0.0, 1.0, signed=0, narrow=0, rounding_mode="CEIL"),
    "one bit, signed": lambda net: net.add("Quant", 1.0, 0.0, 1.0, signed=1),
    "four bits": lambda net: net.add("IntQuant", 0.25, 0.0, 4.0, signed=1, narrow=0, rounding_mode="FLOOR"),
    "zero point": lambda net: net.add("Quant", 0.5, 1.0, 2.0, signed=0, rounding_mode="ROUND"),
    "sign": lambda net: net.add("Sign"),
    "thresholds": lambda net: net.add("MultiThreshold", [[-1.0, 0.0, 0.5]], out_scale=0.5, out_bias=-1.0),
    "linear": lambda net: (net.add("QuantizeLinear", 0.5), net.add("DequantizeLinear", 0.5)),
    "rounded and clipped": lambda net: (net.add("Round"), net.add("Clip", -1.0, 2.0)),
}
WEIGHTS = {
    "binary": signs,
    "scaled": lambda rng, outputs, *shape: (
        signs(rng, outputs, *shape) * rng.choice([0.5, 2.0], outputs).reshape(-1, *[1] * len(shape))
    ),
    "ternary": lambda rng, *shape: rng.integers(-1, 2, shape) * 0.5,
    "four bits": lambda rng, *shape: rng.integers(-7, 8, shape) * 0.25,
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_quantised_layers(activation, weights, rng, tmp_path):
    net = Net(3, 9, 7)
    net.add("Conv", numbers(rng, (11, 3, 3, 3)), kernel_shape=[3, 3])
    for outputs_, padding, stride in ((11, 1, 1), (6, 1, 2)):
        norm(net, rng, 11)
        ACTIVATIONS[activation](net)
        weight = WEIGHTS[weights](rng, outputs_, 11, 3, 3)
        net.add("Conv", weight, numbers(rng, outputs_), pads=[padding] * 4, strides=[stride] * 2)
    norm(net, rng, 6)
    check(net, tmp_path)


def test_what_binary_layers_become(rng, tmp_path):
    net = Net(5, 6, 6)
    net.add("BipolarQuant", 1.0)
    net.add("Conv", signs(rng, 8, 5, 3, 3), pads=[1, 1, 1, 1])
    norm(net, rng, 8)
    net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.add("BipolarQuant", 1.0)
    net.add("Flatten")
    net.add("MatMul", signs(rng, 72, 10))
    operators = check(net, tmp_path)
    assert [type(it).__name__ for it in operators if not isinstance(it, Pointwise)] == [
        "BConv",
        "MaxPool",
        "Flatten",
        "BConv",
    ]
    assert {type(it) for it in operators} <= {BConv, MaxPool, Pointwise, type(operators[-2])}


def test_two_bits_are_binary_convolutions_with_thresholds(rng, tmp_path):
    net = Net(4, 5, 5)
    net.add("Quant", 0.5, 0.0, 2.0, signed=0)
    net.add("Conv", signs(rng, 6, 4, 3, 3), pads=[1, 1, 1, 1])
    operators = check(net, tmp_path)
    assert [type(it) for it in operators[:3]] == [BConv] * 3
    assert all(it.zero_one and it.threshold is not None for it in operators[:3])


@pytest.mark.parametrize("fill", [-1.0, 0.0, 1.0, 0.5])
@pytest.mark.parametrize("activation", ["bipolar", "two bits", "four bits", None])
def test_padding_with_other_numbers(activation, fill, rng, tmp_path):
    net = Net(4, 5, 6)
    if activation:
        ACTIVATIONS[activation](net)
    net.add("Pad", np.array([0, 0, 1, 2, 0, 0, 2, 1], np.int64), fill)
    net.add("Conv", signs(rng, 5, 4, 3, 3))
    check(net, tmp_path)


@pytest.mark.parametrize("activation", ["bipolar", "two bits, wide"])
def test_padding_before_the_quantiser(activation, rng, tmp_path):
    net = Net(4, 5, 6)
    net.add("Pad", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    ACTIVATIONS[activation](net)
    net.add("Conv", signs(rng, 5, 4, 3, 3))
    check(net, tmp_path)


@pytest.mark.parametrize("mode", ROUNDINGS)
def test_rounding_modes(mode, tmp_path):
    """Quarters hit every case of the table of roundings."""
    net = Net(3, 4, 4)
    net.add("Quant", 1.0, 0.0, 4.0, signed=1, narrow=0, rounding_mode=mode)
    check(net, tmp_path, count=200)


ELEMENTWISE = {
    "relu": lambda net: net.add("Relu"),
    "prelu": lambda net: net.add("PRelu", np.array([0.5, -0.25, 2.0]).reshape(3, 1, 1)),
    "leaky": lambda net: net.add("LeakyRelu", alpha=0.25),
    "clip": lambda net: net.add("Clip", -0.5, 1.0),
    "constants": lambda net: [net.add(op, 2.0) for op in ("Mul", "Add", "Div", "Sub")],
    "constant first": lambda net: net.add("Sub", inputs=[net.const(1.5), net.x]),
    "negated": lambda net: net.add("Neg"),
    "per channel": lambda net: net.add("Mul", np.array([1.0, -2.0, 0.5]).reshape(1, 3, 1, 1)),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("behind", ["nothing", "sign", "pool and sign"])
def test_functions(name, behind, rng, tmp_path):
    net = Net(3, 4, 6)
    ELEMENTWISE[name](net)
    if behind == "pool and sign":
        net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    if behind != "nothing":
        net.add("BipolarQuant", 1.0)
        net.add("Conv", signs(rng, 4, 3, 2, 2))
    check(net, tmp_path)


def test_a_residual_block(rng, tmp_path):
    net = Net(6, 6, 6)
    before = net.x
    net.add("BipolarQuant", 1.0)
    net.add("Conv", signs(rng, 6, 6, 3, 3), pads=[1, 1, 1, 1])
    norm(net, rng, 6)
    net.add("Add", before)
    after = net.add("PRelu", np.full((6, 1, 1), 0.25))
    net.add("BipolarQuant", 1.0)
    net.add("Conv", signs(rng, 6, 3, 3, 3), pads=[1, 1, 1, 1], group=2)
    net.add("Add", after)
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.add("Gemm", numbers(rng, (10, 6)), numbers(rng, 10), transB=1)
    images = numbers(rng, (16, 6, 6, 6))
    expected, found, graph = outputs(net, tmp_path, images)
    assert np.abs(expected - found).max() <= 1e-5 * np.abs(expected).max()  # 36 pixels: an average rounds
    assert sum(isinstance(it, BConv) for it in graph.operators) == 2


def test_sums_of_quantised_numbers_stay_whole(rng, tmp_path):
    net = Net(4, 5, 5)
    first = net.add("Quant", 0.3, 0.0, 2.0, signed=1, narrow=1)
    net.add("Conv", signs(rng, 4, 4, 3, 3), pads=[1, 1, 1, 1])
    second = net.add("Quant", 0.3, 0.0, 2.0, signed=1, narrow=1)
    net.add("Add", inputs=[first, second])
    net.add("Quant", 0.6, 0.0, 2.0, signed=1, narrow=1)
    net.add("Conv", signs(rng, 7, 4, 1, 1))
    images = numbers(rng, (64, 4, 5, 5))
    expected, found, graph = outputs(net, tmp_path, images)
    assert np.allclose(expected, found, rtol=1e-6, atol=0)
    assert not any(isinstance(it, Conv) for it in graph.operators)


def test_joined_and_moved_channels(rng, tmp_path):
    net = Net(6, 4, 4)
    start = net.x
    net.add("BipolarQuant", 1.0)
    first = net.add("Conv", signs(rng, 6, 6, 1, 1))
    net.add("Concat", inputs=[start, first], axis=1)
    net.add("Slice", np.array([2], np.int64), np.array([10], np.int64), np.array([1], np.int64))
    net.add("Gather", np.array([1, 0, 3, 2, 5, 4, 7, 6], np.int64), axis=1)
    net.add("BipolarQuant", 1.0)
    net.add("Conv", signs(rng, 5, 8, 3, 3))
    check(net, tmp_path)


def test_channels_last(rng, tmp_path):
    """As QKeras writes: images (N, H, W, C), turned at the start, and a matrix over channels that stand last."""
    net = Net(5, 6, 3)
    net.add("Transpose", perm=[0, 3, 1, 2])
    net.add("BipolarQuant", 1.0)
    net.add("Conv", signs(rng, 8, 3, 3, 3))
    net.add("Transpose", perm=[0, 2, 3, 1])
    net.add("Add", numbers(rng, 8))
    net.add("MultiThreshold", numbers(rng, (8, 1)), data_layout="NHWC", out_scale=2.0, out_bias=-1.0)
    net.add("MatMul", signs(rng, 8, 6))
    net.add("Relu")
    net.add("Reshape", np.array([-1, 72], np.int64))  # row, column, channel
    net.add("BipolarQuant", 1.0)
    net.add("MatMul", signs(rng, 72, 4))
    check(net, tmp_path)


def test_shapes_that_are_computed(rng, tmp_path):
    net = Net(1, 4, 4, batch=1)
    shape = net.add("Shape")
    number = net.add("Gather", inputs=[shape, net.const(np.array(0, np.int64))], axis=0)
    row = net.add("Unsqueeze", inputs=[number, net.const(np.array([0], np.int64))])
    target = net.add("Concat", inputs=[row, net.const(np.array([-1], np.int64))], axis=0)
    net.add("Reshape", inputs=["x", target])
    net.add("Mul", 2.0)
    net.add("Sub", 1.0)
    net.add("BipolarQuant", 1.0)
    weight = net.add("Transpose", inputs=[net.const(signs(rng, 5, 16))], perm=[1, 0])
    net.nodes[-1]["input"][0], before = net.nodes[-1]["input"][0], net.nodes[-2]["output"][0]
    net.add("MatMul", inputs=[before, weight])
    check(net, tmp_path)


@pytest.mark.parametrize("version", [1, 2])
def test_trunc_of_a_pooled_map(version, rng, tmp_path):
    """As Brevitas writes a truncating average: mean, times the size of the window, truncated."""
    net = Net(4, 4, 4)
    net.add("Quant", 1.0, 0.0, 4.0, signed=0)
    net.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    net.add("Mul", 4.0)
    numbers_ = (1.0, 0.0, 6.0, 4.0) if version == 1 else (1.0, 0.0, 6.0, 4.0, 4.0)
    net.add("Trunc", *numbers_, rounding_mode="FLOOR", **({} if version == 1 else {"signed": 0}))
    net.add("Conv", signs(rng, 3, 4, 2, 2))
    check(net, tmp_path, unit=1.0)


def test_dilation_and_vectors_of_time(rng, tmp_path):
    net = Net(4, 12)
    net.add("BipolarQuant", 1.0)
    net.add("Conv", signs(rng, 6, 4, 3), dilations=[2], pads=[2, 2], strides=[2])
    net.add("MaxPool", kernel_shape=[2], strides=[2])
    net.add("Flatten")
    net.add("BipolarQuant", 1.0)
    net.add("Gemm", signs(rng, 18, 5))
    check(net, tmp_path)


def test_steps_hold_an_input_of_eight_bits(rng, tmp_path):
    net = Net(3, 6, 6)
    net.add("Quant", 2.0**-7, 0.0, 8.0, signed=1)
    net.add("Conv", signs(rng, 4, 3, 3, 3))
    operators = check(net, tmp_path, unit=2.0**-8)
    assert isinstance(operators[0], Steps)
    assert operators[0].thresholds.shape == (1, 255)
    assert any(isinstance(it, RoundedConv) for it in operators)


def test_the_lowest_number_of_eight_bits(rng, tmp_path):
    """It has no size in its own type."""
    net = Net(3, 6, 6)
    net.add("QuantizeLinear", 2.0**-7, np.array(0, np.int8))
    net.add("DequantizeLinear", 2.0**-7, np.array(0, np.int8))
    net.add("Conv", signs(rng, 4, 3, 3, 3))
    check(net, tmp_path)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("fill", [0, 1, -1])
@pytest.mark.parametrize("behind", ["nothing", "a scale", "thresholds"])
def test_windows_are_a_convolution(groups, fill, behind, rng, tmp_path):
    """As FINN has convolutions: channels last, every window a row, all of them times a matrix."""
    weight = np.zeros((8, 4, 3, 2), np.float32)
    for k in range(groups):
        rows, columns = (slice(k * side // groups, (k + 1) * side // groups) for side in (8, 4))
        weight[rows, columns] = signs(rng, 8 // groups, 4 // groups, 3, 2)
    net = Net(6, 7, 4)
    net.add("BipolarQuant", 1.0)
    sizes = {"kernel_size": [3, 2], "stride": [2, 1], "pad_amount": [1, 0, 1, 1], "pad_value": fill}
    net.add("Im2Col", **sizes, dilations=[1, 2], input_shape="(1,6,7,4)", depthwise=int(groups > 1))
    if behind == "a scale":
        net.add("Mul", 0.5)
    if behind == "thresholds":
        net.add("MultiThreshold", [[-0.5, 0.5]], data_layout="NHWC")
    net.add("MatMul", weight.transpose(2, 3, 1, 0).reshape(24, 8))
    net.add("Add", numbers(rng, 8))
    net.add("Transpose", perm=[0, 3, 1, 2])
    operators = check(net, tmp_path)
    assert {it.groups for it in operators if isinstance(it, BConv)} == {groups}


def test_a_map_with_channels_last_at_the_end_is_said(rng, tmp_path):
    net = Net(3, 5, 6)
    net.add("Conv", numbers(rng, (4, 3, 1, 1)))
    net.add("Transpose", perm=[0, 2, 3, 1])
    images = numbers(rng, (8, 3, 5, 6))
    expected, found, _ = outputs(net, tmp_path, images)
    assert np.array_equal(expected.reshape(8, 5, 6, 4).transpose(0, 3, 1, 2).reshape(8, -1), found)
    assert "channels, rows, columns" in import_qonnx(net.bytes(), tmp_path / "n.ftbnn").notes[0]


@pytest.mark.parametrize("image", [(4, 5, 5), (4, 1, 1), (4,)])
def test_weights_of_groups_in_a_matrix(image, rng, tmp_path):
    net = Net(*image)
    weight = np.zeros((6, 4, *[1] * (len(image) - 1)), np.float32)
    weight[:3, :2], weight[3:, 2:] = (rng.normal(size=(3, 2, *weight.shape[2:])) for _ in range(2))
    net.add(*("Conv", weight) if len(image) > 1 else ("Gemm", weight.T))
    images = numbers(rng, (8, *image))
    expected, found, graph = outputs(net, tmp_path, images)
    assert np.allclose(expected, found, rtol=1e-6, atol=1e-6)
    assert [it.groups for it in graph.operators] == [2]


def test_sums_are_whole_before_they_are_scaled(rng, tmp_path):
    """Where several binary convolutions take the place of one, 0 is 0, and not the rest of three roundings."""
    net = Net(3, 9, 9)
    net.add("Quant", 0.3, 0.0, 2.0, signed=1)
    quantised = net.x
    first = net.add("Conv", rng.integers(-1, 2, (7, 3, 3, 3)) * np.float32(0.7), pads=[1, 1, 1, 1])
    second = net.add("Conv", inputs=[quantised, net.const(rng.integers(-1, 2, (5, 3, 1, 1)) * np.float32(0.6))])
    net.add("Concat", inputs=[first, second], axis=1)
    net.add("BipolarQuant", 1.0)
    net.add("Conv", signs(rng, 6, 12, 3, 3))
    check(net, tmp_path, unit=0.1, count=200)


@pytest.mark.parametrize("end", ["TopK", "ArgMax"])
def test_the_best_class_at_the_end_is_left_out_and_said(end, rng, tmp_path):
    net = Net(4)
    net.add("MatMul", numbers(rng, (4, 3)))
    if end == "TopK":
        net.x = net.add("TopK", np.array([1], np.int64), outputs=2, axis=-1).replace("_0", "_1")
    else:
        net.add("ArgMax", axis=1)
    assert (
        f"{end} '{end}_1' at the end is left out: the file gives all scores"
        in (import_qonnx(net.bytes(), tmp_path / "n.ftbnn").notes[0])
    )


def test_a_softmax_at_the_end_is_left_out_and_said(rng, tmp_path):
    net = Net(4)
    net.add("MatMul", numbers(rng, (4, 3)))
    net.add("Softmax")
    assert "Softmax" in import_qonnx(net.bytes(), tmp_path / "n.ftbnn").notes[0]


REFUSED = {
    "Erf": lambda net, _: net.add("Erf"),
    "MatMul": lambda net, _: (net.add("Flatten"), net.add("MatMul", inputs=[net.x, net.x])),
    "Div": lambda net, _: (net.add("Relu"), net.add("Div", "x")),
    "Conv": lambda net, _: net.add("Conv", np.zeros((4, 7, 3, 3))),
    "Reshape": lambda net, _: net.add("Reshape", np.array([4, -1], np.int64)),
    "Transpose": lambda net, _: (net.add("Transpose", perm=[0, 1, 3, 2]), net.add("Conv", np.ones((1, 3, 1, 1)))),
    "Pad": lambda net, _: net.add("Pad", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), mode="reflect"),
    "Quant": lambda net, _: net.add("Quant", 1.0, 0.0, 2.5),
    "MaxPool": lambda net, _: net.add("MaxPool", kernel_shape=[9, 9]),
    "AveragePool": lambda net, _: net.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2], pads=[1] * 7),
    "Gemm": lambda net, _: (net.add("Flatten"), net.add("Gemm", np.ones((1, 5)), transA=1)),
    "ArgMax": lambda net, _: (net.add("Flatten"), net.add("ArgMax", axis=0)),
    "TopK": lambda net, _: (net.add("Flatten"), net.add("TopK", np.array([1], np.int64), largest=0)),
    "Selu": lambda net, _: net.add("Selu"),
    "Where": lambda net, _: (net.add("Greater", 0.0), net.add("Where", "x", "x")),
    "Max": lambda net, _: (net.add("Relu"), net.add("Max", "x")),
    "Flatten": lambda net, _: (net.add("Im2Col", kernel_size=[2, 2], stride=[1, 1]), net.add("Flatten")),
    "Im2Col": lambda net, _: net.add("Im2Col", kernel_size=[9, 9], stride=[1, 1]),
    "ConstantOfShape": lambda net, _: net.add(
        "Add", net.add("ConstantOfShape", inputs=[net.const(np.array([2**40], np.int64))])
    ),
}


@pytest.mark.parametrize("op", REFUSED)
def test_what_cannot_be_held_is_named(op, rng, tmp_path):
    net = Net(3, 4, 4)
    REFUSED[op](net, rng)
    with pytest.raises(ImportRefused, match=f"cannot import {op} '{op}_"):
        import_qonnx(net.bytes(), tmp_path / "n.ftbnn")
    assert not (tmp_path / "n.ftbnn").exists()


def test_the_command(rng, tmp_path, capsys):
    net = Net(2, 4, 4)
    net.add("BipolarQuant", 1.0)
    net.add("Conv", signs(rng, 3, 2, 4, 4))
    net.add("Flatten")
    source, out, names = tmp_path / "net.onnx", tmp_path / "net.ftbnn", tmp_path / "names"
    source.write_bytes(net.bytes())
    names.write_text("cat\ndog\nhen\n")
    words = ["import", str(source), "-o", str(out), "--mean", "0.5", "--std", "0.25,0.5", "--classes", str(names)]
    assert main(words) == 0
    assert "same best class for 100.0%, same outputs for 100.0%" in capsys.readouterr().out
    assert main(["inspect", str(out)]) == 0
    assert main(["import", str(source), "-o", str(out), "--mean", "1,2,3"]) == 2
    assert main(["import", str(tmp_path / "absent.onnx")]) == 2
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["import", str(source), "--mean", "0.5,abc"])
    assert "--mean: '0.5,abc' is no number, or several as 0.5,0.5,0.5" in capsys.readouterr().err
    np.savez(tmp_path / "several.npz", numbers(rng, (2, 3)))
    for samples in (names, tmp_path / "several.npz"):
        assert main(["import", str(source), "-o", str(out), "--samples", str(samples)]) == 2
        assert capsys.readouterr().err.endswith(
            f"from {samples}: it is no .npy file of numbers, as numpy.save writes\n"
        )
    net.add("Erf")
    source.write_bytes(net.bytes())
    assert main(["import", str(source)]) == 2
    assert "cannot import Erf 'Erf_3'" in capsys.readouterr().err


def test_the_samples_of_a_user(rng, tmp_path):
    net = Net(3)
    net.add("MatMul", numbers(rng, (3, 2)))
    assert import_qonnx(net.bytes(), tmp_path / "n.ftbnn", samples=numbers(rng, (5, 3))).samples == 5
    with pytest.raises(UserError, match="samples must have the shape"):
        import_qonnx(net.bytes(), tmp_path / "n.ftbnn", samples=numbers(rng, (5, 4)))


def test_only_what_the_output_needs_is_read(rng):
    net = Net(3)
    net.add("Erf")
    net.x = "x"
    net.add("MatMul", numbers(rng, (3, 2)))
    assert len(lower(parse(net.bytes())).graph.operators) == 1


@pytest.mark.parametrize("damage", ["a weight", "a threshold", "a number"])
def test_a_file_that_computes_something_else_is_refused(damage, rng, tmp_path, monkeypatch):
    """One bit of one weight, one threshold by a step, one real weight by a thousandth: the node is named."""
    net = Net(4, 5, 5)
    net.add("Conv", rng.normal(size=(6, 4, 3, 3)), pads=[1, 1, 1, 1])
    norm(net, rng, 6)
    net.add("BipolarQuant", 1.0)
    net.add("Conv", signs(rng, 5, 6, 3, 3))

    def damaged(model):
        lowered = lower(model)
        conv, binary = (next(it for it in lowered.graph.operators if isinstance(it, kind)) for kind in (Conv, BConv))
        if damage == "a weight":
            binary.positive[0][2, 1, 0, 0] ^= True
        elif damage == "a threshold":
            binary.threshold[np.argmin(np.abs(binary.threshold))] += 2.0
        else:
            weight = conv.weights[0].copy()
            weight[3, 1, 1, 1] += 1e-3
            conv.weights = (weight,)
        return lowered

    import_qonnx(net.bytes(), tmp_path / "n.ftbnn")
    monkeypatch.setattr("ftbnn.exchange.qonnx_import.lower", damaged)
    node = "Conv_0" if damage == "a number" else "Conv_3"
    with pytest.raises(ImportRefused, match=f"cannot import Conv '{node}': the file gives other numbers"):
        import_qonnx(net.bytes(), tmp_path / "other.ftbnn")
    assert not (tmp_path / "other.ftbnn").exists()


@pytest.mark.parametrize(("is_named", "samples"), [(False, 16), (True, 400)])
def test_a_network_written_for_a_whole_data_set_is_tried_on_a_few_images(tmp_path, is_named, samples):
    net = Net(4, 3, 3, batch=400)
    net.add("Reshape", np.array([400 if is_named else -1, 36]))
    net.add("Gemm", numbers(np.random.default_rng(0), (36, 5)))
    assert import_qonnx(net.bytes(), tmp_path / "net.ftbnn").samples == samples


def test_large_images_are_tried_on_fewer(tmp_path):
    net = Net(3, 400, 400)
    net.add("Conv", numbers(np.random.default_rng(0), (16, 3, 1, 1)))
    net.add("GlobalAveragePool")
    assert import_qonnx(net.bytes(), tmp_path / "net.ftbnn").samples == 2


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("is_last", [False, True])
def test_sums_of_maps_however_their_axes_lie(tmp_path, channels, is_last):
    net = Net(channels, 6, 5)
    made = net.add("Conv", numbers(np.random.default_rng(0), (channels, channels, 3, 3)), pads=[1, 1, 1, 1])
    both = [made, "x"]
    if is_last:
        both = [net.add("Transpose", inputs=[name], perm=[0, 2, 3, 1]) for name in both]
    net.add("Add", inputs=both)
    if is_last:
        net.add("Transpose", perm=[0, 3, 1, 2])
    net.add("Flatten")
    check(net, tmp_path)
